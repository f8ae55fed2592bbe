"""The libraries of Kubernetes for quantities, versions, URLs, the forms of names, and questions to an authorizer."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Protocol
from urllib.parse import parse_qs, quote, urlsplit

from fleet.values.cel import types
from fleet.values.cel.types import Type
from fleet.values.cel.values import NO_OVERLOAD, NONE, Evaluation, NoValue, Optional, timestamp
from fleet.values.names import (
    dns1035_problems,
    label_problems,
    label_value_problems,
    qualified_name_problems,
    subdomain_problems,
)
from fleet.values.quantity import NANO, BadQuantity, nanos

_WHOLE_MAX = (1 << 63) - 1
_BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_LOOSE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?((?:[-+].*)?)", re.ASCII | re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][-A-Za-z0-9+.]*:")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _text(run: Evaluation, value: Any) -> str:
    if type(value) is not str:
        raise NoValue(NO_OVERLOAD)
    run.traverse(len(value))
    return value


# -- quantities


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    TYPE: ClassVar[Type] = types.QUANTITY
    nanos: int


def quantity(run: Evaluation, value: Any) -> Quantity:
    try:
        return Quantity(nanos(_text(run, value)))
    except BadQuantity:
        raise NoValue(_BAD_QUANTITY) from None


def is_quantity(run: Evaluation, value: Any) -> bool:
    try:
        quantity(run, value)
    except NoValue as fault:
        if str(fault) != _BAD_QUANTITY:
            raise
        return False
    return True


def sign(run: Evaluation, value: Any) -> int:
    return int(value.nanos > 0) - int(value.nanos < 0)


def is_integer(run: Evaluation, value: Any) -> bool:
    return bool(value.nanos % NANO == 0 and abs(value.nanos // NANO) <= _WHOLE_MAX)


def as_integer(run: Evaluation, value: Any) -> int:
    if not is_integer(run, value):
        raise NoValue("cannot convert value to integer")
    return int(value.nanos // NANO)


def as_float(run: Evaluation, value: Any) -> float:
    return float(value.nanos / NANO)


def add(run: Evaluation, one: Any, other: Any) -> Quantity:
    return Quantity(one.nanos + (other * NANO if type(other) is int else other.nanos))


def subtract(run: Evaluation, one: Any, other: Any) -> Quantity:
    return Quantity(one.nanos - (other * NANO if type(other) is int else other.nanos))


# -- versions


@dataclass(frozen=True, slots=True)
class Semver:
    TYPE: ClassVar[Type] = types.SEMVER
    numbers: tuple[int, int, int]
    before: tuple[str, ...] = ()  # the parts of a pre-release

    def key(self) -> tuple[Any, ...]:
        parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.before]
        return (self.numbers, not self.before, parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.numbers)

    def __lt__(self, other: Semver) -> bool:
        return self.key() < other.key()

    def __gt__(self, other: Semver) -> bool:
        return self.key() > other.key()


def semver(run: Evaluation, value: Any, normalize: Any = False) -> Semver:
    text = _text(run, value)
    loose = _LOOSE.fullmatch(text) if normalize is True else None
    if loose is not None:
        text = ".".join(str(int(part or 0)) for part in loose.groups()[:3]) + loose[4]
    match = _SEMVER.fullmatch(text)
    if match is None or any(len(match[at]) > 19 for at in (1, 2, 3)):
        raise NoValue("No Major.Minor.Patch elements found" if text.count(".") < 2 else f"invalid version {text[:50]}")
    return Semver((int(match[1]), int(match[2]), int(match[3])), tuple(match[4].split(".")) if match[4] else ())


def is_semver(run: Evaluation, value: Any, normalize: Any = False) -> bool:
    try:
        semver(run, value, normalize)
    except NoValue as fault:
        if str(fault) == NO_OVERLOAD:
            raise
        return False
    return True


def _number(at: int) -> Callable[[Evaluation, Any], int]:
    return lambda run, value: int(value.numbers[at])


def _alike(one: Any, other: Any) -> None:
    if type(one) is not type(other) or type(one) not in (Quantity, Semver):
        raise NoValue(NO_OVERLOAD)


def is_greater(run: Evaluation, one: Any, other: Any) -> bool:
    _alike(one, other)
    return bool(one > other)


def is_less(run: Evaluation, one: Any, other: Any) -> bool:
    _alike(one, other)
    return bool(one < other)


def compare_to(run: Evaluation, one: Any, other: Any) -> int:
    _alike(one, other)
    return int(one > other) - int(one < other)


# -- URLs


@dataclass(frozen=True, slots=True)
class URL:
    TYPE: ClassVar[Type] = types.URL
    scheme: str
    host: str
    path: str
    query: str


def _url(text: str) -> URL:
    """Raises ValueError. As Go reads the URL of a request: with a scheme, or a path from the root."""
    if not text:
        raise ValueError(f'parse "{text}": empty url')
    if any(sign < " " or sign == "\x7f" for sign in text):
        raise ValueError(f'parse "{text}": net/url: invalid control character in URL')
    if not text.startswith("/") and not _SCHEME.match(text):
        raise ValueError(f'parse "{text}": invalid URI for request')
    try:
        parts = urlsplit(text.split("#", 1)[0] if not text.startswith("//") else text)
        int(parts.port or 0)
    except ValueError:
        raise ValueError(f'parse "{text}": invalid port or host') from None
    if re.search(r"%(?![0-9A-Fa-f]{2})", parts.path):
        raise ValueError(f'parse "{text}": invalid URL escape')
    host = parts.netloc.rpartition("@")[2]
    if " " in host:
        raise ValueError(f'parse "{text}": invalid character " " in host name')
    return URL(parts.scheme, host, quote(parts.path, safe="/:@!$&'()*+,;=-._~%"), parts.query)


def url(run: Evaluation, value: Any) -> URL:
    try:
        return _url(_text(run, value))
    except ValueError as problem:
        raise NoValue(f"URL parse error during conversion from string: {problem}") from None


def is_url(run: Evaluation, value: Any) -> bool:
    try:
        _url(_text(run, value))
    except ValueError:
        return False
    return True


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _port(host: str) -> str:
    return host.rpartition("]")[2].rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""


def query(run: Evaluation, value: Any) -> dict[str, list[str]]:
    run.traverse(len(value.query))
    return parse_qs(value.query, keep_blank_values=True)


# -- the forms of names and values


@dataclass(frozen=True, slots=True)
class Format:
    TYPE: ClassVar[Type] = types.FORMAT
    name: str
    size: int  # of the regular expression that Kubernetes counts for it


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Of a prefix that something is added to: it may end with a hyphen."""
    return lambda text: check(text[:-1] + "a" if text.endswith("-") and len(text) > 1 else text)


def _uri(text: str) -> list[str]:
    try:
        _url(text)
    except ValueError as problem:
        return [str(problem)]
    return []


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    try:
        return timestamp(text) is not None
    except ValueError:
        return False


def _plain(test: Callable[[str], Any], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if test(text) else [problem]


def _is_base64(text: str) -> bool:
    return bool(text) and _BASE64.fullmatch(text) is not None and base64.b64decode(text) is not None


_DATETIME_SIZE = 164
_FORMATS: dict[str, tuple[int, Callable[[str], Any]]] = {
    "dns1123Label": (30, label_problems),
    "dns1123Subdomain": (60, subdomain_problems),
    "dns1035Label": (30, dns1035_problems),
    "qualifiedName": (60, qualified_name_problems),
    "dns1123LabelPrefix": (30, _prefix(label_problems)),
    "dns1123SubdomainPrefix": (60, _prefix(subdomain_problems)),
    "dns1035LabelPrefix": (30, _prefix(dns1035_problems)),
    "labelValue": (40, label_value_problems),
    "uri": (1000, _uri),
    "uuid": (100, _plain(_UUID.fullmatch, "does not match the UUID format")),
    "byte": (100, _plain(_is_base64, "invalid base64")),
    "date": (_DATETIME_SIZE, _plain(_is_date, "invalid date")),
    "datetime": (_DATETIME_SIZE, _plain(_is_datetime, "invalid datetime")),
}


def format_named(run: Evaluation, name: Any) -> Optional:
    return Optional((Format(name, _FORMATS[name][0]),)) if name in _FORMATS else NONE


def validate(run: Evaluation, form: Any, value: Any) -> Optional:
    if type(form) is not Format or type(value) is not str:
        raise NoValue(NO_OVERLOAD)
    run.spend(-(-(len(value) + 1) // 10) * -(-form.size // 4))
    found = list(_FORMATS[form.name][1](value))
    return Optional((found,)) if found else NONE


def _constant(name: str) -> Callable[[Evaluation], Format]:
    made = Format(name, _FORMATS[name][0])
    return lambda run: made


# -- questions to an authorizer


class Authorizer(Protocol):
    """Answers whether somebody may do something. `asked`: "path" or "group", "resource", "subresource", "namespace",
    "name", "fieldSelector", "labelSelector"; "serviceAccount" where it is not the user of the request; and "verb"."""

    def authorize(self, asked: dict[str, str]) -> tuple[bool, str, str]:
        """(whether it is allowed, the reason, an error)"""


@dataclass(frozen=True, slots=True)
class AuthorizerQuestion:
    authorizer: Authorizer
    attributes: tuple[tuple[str, str], ...] = ()
    TYPE: Type = types.AUTHORIZER


@dataclass(frozen=True, slots=True)
class AuthorizerDecision:
    TYPE: ClassVar[Type] = types.DECISION
    allowed: bool
    reason: str
    error: str


_NEEDED = ("path", "resource")
_BECOMES = {"path": types.PATH_CHECK, "group": types.GROUP_CHECK, "resource": types.RESOURCE_CHECK}


def _asking(key: str) -> Callable[[Evaluation, Any, Any], AuthorizerQuestion]:
    def ask(run: Evaluation, question: Any, value: Any) -> AuthorizerQuestion:
        if type(question) is not AuthorizerQuestion or type(value) is not str:
            raise NoValue(NO_OVERLOAD)
        if key in _NEEDED and not value.strip():
            raise NoValue(f"{key} must not be empty")
        return AuthorizerQuestion(
            question.authorizer, (*question.attributes, (key, value)), _BECOMES.get(key, question.TYPE)
        )

    return ask


def service_account(run: Evaluation, question: Any, namespace: Any, name: Any) -> AuthorizerQuestion:
    if type(question) is not AuthorizerQuestion:
        raise NoValue(NO_OVERLOAD)
    if subdomain_problems(name):
        raise NoValue("Invalid service account name")
    if label_problems(namespace):
        raise NoValue("Invalid service account namespace")
    asked = (*question.attributes, ("serviceAccount", f"{namespace}:{name}"))
    return AuthorizerQuestion(question.authorizer, asked, question.TYPE)


def check(run: Evaluation, question: Any, verb: Any) -> AuthorizerDecision:
    run.spend(350_000)
    return AuthorizerDecision(*question.authorizer.authorize({**dict(question.attributes), "verb": verb}))


KUBERNETES: dict[str, tuple[Callable[..., Any], int]] = {
    "quantity": (quantity, 0),
    "isQuantity": (is_quantity, 0),
    "sign": (sign, 1),
    "isInteger": (is_integer, 1),
    "asInteger": (as_integer, 1),
    "asApproximateFloat": (as_float, 1),
    "add": (add, 1),
    "sub": (subtract, 1),
    "semver": (semver, 0),
    "isSemver": (is_semver, 0),
    "major": (_number(0), 1),
    "minor": (_number(1), 1),
    "patch": (_number(2), 1),
    "isGreaterThan": (is_greater, 1),
    "isLessThan": (is_less, 1),
    "compareTo": (compare_to, 1),
    "url": (url, 0),
    "isURL": (is_url, 1),
    "getScheme": (lambda run, value: value.scheme, 1),
    "getHost": (lambda run, value: value.host, 1),
    "getHostname": (lambda run, value: _hostname(value.host), 1),
    "getPort": (lambda run, value: _port(value.host), 1),
    "getEscapedPath": (lambda run, value: value.path, 1),
    "getQuery": (query, 1),
    "format.named": (format_named, 1),
    "validate": (validate, 0),
    **{f"format.{name}": (_constant(name), 1) for name in _FORMATS},
    **{
        key: (_asking(key), 1)
        for key in ("path", "group", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector")
    },
    "serviceAccount": (service_account, 1),
    "check": (check, 0),
    "allowed": (lambda run, decision: decision.allowed, 1),
    "reason": (lambda run, decision: decision.reason, 1),
    "errored": (lambda run, decision: bool(decision.error), 1),
    "error": (lambda run, decision: decision.error, 1),
}
