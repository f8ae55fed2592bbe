"""Acting as another user (`kubectl --as`): each header takes a right of its own.

The user that results has exactly the groups that were given, but for the group that says whether anybody is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

from api.access.auth import AUTHENTICATED, account_user
from api.engine.status import bad_request
from api.objects.writing import User
from api.wire.http import Request
from api.wire.rights import Attributes, Authorizer
from fleet.values.names import label_problems, subdomain_problems

UNAUTHENTICATED = "system:unauthenticated"
AUTHENTICATION = "authentication.k8s.io"
MAX_VALUES = 256  # groups and extra values of one request: each is a check
_ANONYMOUS = "system:anonymous"
_EXTRA = b"impersonate-extra-"


def impersonated(request: Request, user: User, authorizer: Authorizer) -> User:
    """Whom the user asks to act as; the user, when nobody. StatusError 403 where a right is missing, 400 for headers
    that name no user."""
    headers = [(key, value) for key, value in request.scope["headers"] if key.startswith(b"impersonate-")]
    if not headers:
        return user
    name = next((_text(value) for key, value in headers if key == b"impersonate-user"), "")
    uid = next((_text(value) for key, value in headers if key == b"impersonate-uid"), "")
    groups = [_text(value) for key, value in headers if key == b"impersonate-group"]
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in headers:
        if key.startswith(_EXTRA):
            field = unquote(key[len(_EXTRA) :].decode("latin-1"))
            extra[field] = (*extra.get(field, ()), _text(value))
    if not name:
        if uid or groups or extra:
            raise bad_request("requested a uid, groups or extra fields without impersonating a user name")
        return user
    if len(headers) > MAX_VALUES:
        raise bad_request(f"more than {MAX_VALUES} impersonation headers")
    for attributes in rights(name, groups, uid, extra):
        if not authorizer.allowed(user, attributes):
            raise attributes.refusal(user)
    account = account_of(name)
    if account is not None and not groups:
        groups = list(account_user(*account).groups)
    known = {UNAUTHENTICATED} if name == _ANONYMOUS else {AUTHENTICATED, UNAUTHENTICATED}
    if not known & set(groups):
        groups.append(UNAUTHENTICATED if name == _ANONYMOUS else AUTHENTICATED)
    return User(name, tuple(groups), uid, extra=tuple(sorted(extra.items())))


def account_of(name: str) -> tuple[str, str] | None:
    """(namespace, name) of the service account that a user name means; None for any other user."""
    parts = name.split(":")
    if len(parts) != 4 or not name.startswith("system:serviceaccount:"):
        return None
    return None if label_problems(parts[2]) or subdomain_problems(parts[3]) else (parts[2], parts[3])


def rights(
    name: str, groups: Iterable[str], uid: str = "", extra: Mapping[str, tuple[str, ...]] | None = None
) -> Iterator[Attributes]:
    """What it takes to act as this user: the verb `impersonate` on each of these."""
    account = account_of(name)
    if account is not None:
        yield Attributes("impersonate", "", "serviceaccounts", "", *account)
    else:
        yield Attributes("impersonate", "", "users", "", "", name)
    for group in groups:
        yield Attributes("impersonate", "", "groups", "", "", group)
    for key, values in (extra or {}).items():
        for value in values:
            yield Attributes("impersonate", AUTHENTICATION, "userextras", key, "", value)
    if uid:
        yield Attributes("impersonate", AUTHENTICATION, "uids", "", "", uid)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
