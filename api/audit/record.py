"""The record of one request: the API tells it what happens, and it makes the events of the audit log.

The record is known to nobody before the user is: the policy decides by the user. A request whose level is None gets the
record that keeps nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import orjson
import structlog
import yaml

from api.audit import event as words
from api.audit.policy import AuditedRequest, AuditPolicy, AuditRule, Level, Stage
from api.audit.secrets import bounded, holds_secret, is_secret, masked, quiet
from api.engine.status import StatusError
from api.objects.hooking import AUDITED
from api.objects.writing import User
from api.wire.http import ANONYMOUS, JSON, PROTOBUF, Request, Response
from api.wire.nullrecord import UNRECORDED, NullRecord
from api.wire.protobuf import decode
from api.wire.rights import Attributes, Authorizer
from api.wire.routing import parse, question_of, verb

BODIES_BYTES_MAX = 1 << 20  # of one event; larger bodies are left out, and an annotation says so
READ_BYTES_MAX = 128 * 1024  # of a body that has to be read once more for the log
LONG_RUNNING = frozenset({"proxy", "log", "exec", "attach", "portforward", "tunnel", "dial"})
_DELETES = frozenset({"delete", "deletecollection"})
_EARLY = {"code": 200, "status": "Success", "message": "Connection closed early"}
_BROKEN = {
    "metadata": {},
    "status": "Failure",
    "message": "the request could not be answered",
    "reason": "InternalError",
    "code": 500,
}
log = structlog.get_logger(__name__)


class Sink(Protocol):
    """A place for events. `put` waits for nothing; an event that has no room is counted and lost."""

    def put(self, line: bytes) -> None: ...


class Record(NullRecord):
    """See the module. `now`: the time in epoch seconds."""

    __slots__ = (
        "_annotations",
        "_asked",
        "_body",
        "_code",
        "_facts",
        "_given",
        "_id",
        "_level",
        "_now",
        "_over",
        "_policy",
        "_put",
        "_received",
        "_ref",
        "_request",
        "_rule",
        "_status",
    )

    def __init__(
        self,
        policy: AuditPolicy,
        put: Callable[[bytes], None],
        now: Callable[[], float],
        request: Request,
        audit_id: str,
    ) -> None:
        self._policy, self._put, self._now, self._request, self._id = policy, put, now, request, audit_id
        self._received = now()
        self._rule: AuditRule | None = None
        self._asked: AuditedRequest | None = None
        self._level = Level.None_
        self._facts: words.Body = {}
        self._ref: words.Body | None = None
        self._given: Any = None
        self._body: Any = None
        self._status: Any = None
        self._code = 0
        self._over = False
        self._annotations: dict[str, str] = {}

    # -- what happens

    def known(self, request: Request, user: User) -> None:
        if self._asked is None and self._begin(user, user.groups):
            AUDITED.set(self._annotations)
            self._emit(Stage.RECEIVED, {})

    def acts_as(self, user: User) -> None:
        if self._rule is not None:
            self._facts.setdefault("impersonatedUser", words.user_info(user.name, user.uid, user.groups, user.extra))

    def decided(self, authorizer: Authorizer, user: User, attributes: Attributes, allowed: bool) -> None:
        if self._rule is not None and words.DECISION not in self._annotations:
            self._annotations[words.DECISION] = "allow" if allowed else "forbid"
            self._annotations[words.REASON] = authorizer.reason(user, attributes) if allowed else ""

    def given(self, body: Any) -> None:
        if self._rule is None:
            return
        if self._ref is not None and not isinstance(body, list):
            words.complete_ref(self._ref, body)
        if holds_secret(body):
            self._level = bounded(self._level, True)
        elif self._level >= Level.Request and self._given is None:
            raw = None
            with contextlib.suppress(TypeError):  # a number that JSON cannot say
                raw = orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)
            self._given = self._plain(raw)

    def answered(self, answer: Response) -> None:
        if self._asked is None:
            self._nobody(answer.status)
        if self._rule is None:
            return
        asked = self._asked
        if answer.status >= 400 or (asked is not None and asked.verb in _DELETES) or b'"Status"' in answer.body[:32]:
            self._status = _read_status(answer.body)
        if self._level >= Level.RequestResponse and asked is not None and not asked.path:
            self._body = self._answer_body(answer)

    def started(self, code: int) -> None:
        if self._code or self._over:
            return
        self._code = code
        if self._asked is None:
            self._nobody(code)
        if self._rule is None:
            return
        refused = self._asked is not None and self._asked.groups is None
        if refused or self._is_long():
            self._emit(Stage.STARTED, self._outcome())
        if refused:  # as with a kube-apiserver, this is its only event
            self._rule = None

    def broke(self) -> None:
        if self._asked is None:
            self._nobody(500)
        self._over = True
        if self._rule is not None:
            self._code = 500
            self._emit(Stage.PANIC, {"responseStatus": _BROKEN, **self._bodies()})

    def over(self) -> None:
        if self._over:
            return
        self._over = True
        if self._asked is None and self._code:
            self._nobody(self._code)
        if self._rule is not None and self._asked is not None:
            self._emit(Stage.COMPLETE, self._outcome())

    # -- its events

    def _begin(self, user: User, groups: tuple[str, ...] | None) -> bool:
        """Ask the policy. Whether there is anything to log."""
        request = self._request
        self._asked = view = _asked(request, user.name, groups)
        rule = self._rule = self._policy.rule(view)
        if rule is None or rule.level is Level.None_:
            self._rule, request.record = None, UNRECORDED
            return False
        self._level = bounded(rule.level, is_secret(view))
        scope = request.scope
        raw: bytes = scope.get("raw_path") or request.path.encode()
        query: bytes = scope.get("query_string", b"")
        uri = raw.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
        peer = (scope.get("client") or ("", 0))[0]
        forwarded, real = request.header(b"x-forwarded-for"), request.header(b"x-real-ip")
        agent = request.header(b"user-agent")
        self._facts = {
            "requestURI": masked(uri),
            "verb": view.verb,
            "user": words.user_info(user.name, user.uid, groups or (), user.extra),
            "sourceIPs": words.addresses(forwarded, real, peer),
        }
        if agent:
            self._facts["userAgent"] = words.agent(agent)
        self._ref = words.object_ref(view)
        return True

    def _nobody(self, code: int) -> None:
        """A request that ends before it has a user: refused credentials, or a path that needs none."""
        if code != 401:
            self.known(self._request, ANONYMOUS)
        else:
            self._begin(User(""), None)

    def _is_long(self) -> bool:
        asked = self._asked
        return asked is not None and not asked.path and (asked.verb == "watch" or asked.subresource in LONG_RUNNING)

    def _outcome(self) -> words.Body:
        status = words.response_status(self._code, self._status) if self._code else {"metadata": {}, **_EARLY}
        if self._level < Level.Request and self._rule is not None and self._rule.level > self._level:
            status = quiet(status)
        return {"responseStatus": status, **self._bodies()}

    def _bodies(self) -> words.Body:
        if self._level < Level.Request:
            return {}
        bodies = {"requestObject": self._given, "responseObject": self._body}
        return {name: orjson.Fragment(body) for name, body in bodies.items() if body is not None}

    def _emit(self, stage: Stage, outcome: words.Body) -> None:
        rule = self._rule
        assert rule is not None
        if stage in rule.omit_stages:
            return
        now = self._received if stage is Stage.RECEIVED else self._now()
        document = words.event(
            self._level, self._id, stage, self._facts, self._ref, outcome, self._received, now, self._annotations
        )
        try:
            line = orjson.dumps(document)
        except orjson.JSONEncodeError as error:  # a text that is no Unicode: the rest of the event is worth having
            log.warning("an audit event cannot be written whole", why=str(error)[:200])
            line = orjson.dumps(_encodable(document))
        self._put(line)

    # -- bodies

    def _answer_body(self, answer: Response) -> bytes | None:
        if answer.later is not None or answer.length > BODIES_BYTES_MAX:
            return self._plain(None)
        raw, media = answer.whole, answer.content_type
        if media.startswith(JSON):
            return self._plain(raw) if raw else None
        body = None
        if len(raw) <= READ_BYTES_MAX:
            with contextlib.suppress(StatusError, yaml.YAMLError, TypeError, ValueError):
                if media.startswith(PROTOBUF):
                    body = orjson.dumps(decode(raw))
                elif media.startswith("application/yaml"):
                    body = orjson.dumps(yaml.load(raw, Loader=yaml.CSafeLoader))
        return self._plain(body)

    def _plain(self, raw: bytes | None) -> bytes | None:
        """JSON for the log, without managedFields where the rule says so. None, and an annotation, for a body that is
        too large or cannot be read."""
        assert self._rule is not None
        if raw is None or len(raw) > BODIES_BYTES_MAX:
            self._annotations[words.TRUNCATED] = "true"
            return None
        if self._rule.omit_managed_fields and b'"managedFields"' in raw:
            return orjson.dumps(words.without_managed_fields(orjson.loads(raw)))
        return raw


def _asked(request: Request, user: str, groups: tuple[str, ...] | None) -> AuditedRequest:
    """The request as policies see it."""
    route = parse(request.path)
    if route is None:
        return AuditedRequest(user, groups, request.method.lower(), path=request.path)
    try:
        watching = request.method == "GET" and request.flag("watch")
        selector = request.query.get("fieldSelector", "")
    except StatusError:  # more parameters than are read
        watching, selector = False, ""
    attributes = question_of(route, verb(request.method, route, watching), selector)
    return AuditedRequest(
        user,
        groups,
        attributes.verb,
        route.group,
        route.version,
        route.resource,
        route.subresource,
        route.namespace,
        attributes.name,
    )


def _read_status(raw: bytes) -> Any:
    if b'"Status"' not in raw[:64] or len(raw) > READ_BYTES_MAX:
        return None
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return None if isinstance(value, orjson.Fragment) else value
