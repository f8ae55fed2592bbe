"""The values of CEL that JSON does not have, and what all values share: equality, order, and how large they are.

The others are Python's own: None, bool, int, float, str, bytes, list and dict; an unsigned integer is a `UInt`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from fleet.values.cel.types import Type
from fleet.values.cel.words import UInt
from fleet.values.times import rfc3339

NO_OVERLOAD = "no such overload"
_SECOND = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 1_000_000,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62135596800 * _SECOND, 253402300800 * _SECOND
NUMBERS = frozenset({int, float, UInt})


class NoValue(Exception):
    """An expression has no value over these inputs."""


class OverBudget(NoValue):
    """An expression costs more than it may."""


class Evaluation:
    """One evaluation: the values of its variables, and what is left of its budget."""

    __slots__ = ("balance", "slots")

    def __init__(self, slots: list[Any], balance: int) -> None:
        self.slots, self.balance = slots, balance

    def spend(self, cost: int) -> None:
        self.balance -= cost
        if self.balance < 0:
            raise OverBudget("operation cancelled: actual cost limit exceeded")

    def traverse(self, length: int) -> None:
        """A tenth for each character."""
        self.balance -= -(-length // 10)
        if self.balance < 0:
            raise OverBudget("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970."""

    ns: int

    def __str__(self) -> str:
        seconds, rest = divmod(self.ns, _SECOND)
        return rfc3339(seconds)[:-1] + (f".{rest:09d}".rstrip("0") if rest else "") + "Z"

    def moment(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.ns // _SECOND, microseconds=self.ns % _SECOND // 1000)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    ns: int

    def __str__(self) -> str:
        sign, (seconds, rest) = "-" if self.ns < 0 else "", divmod(abs(self.ns), _SECOND)
        return f"{sign}{seconds}" + (f".{rest:09d}".rstrip("0") if rest else "") + "s"


@dataclass(frozen=True, slots=True)
class Optional:
    """`content`: nothing, or the one value."""

    content: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The outcome of `type()`."""

    name: str


NONE = Optional()


def timestamp(text: str) -> Timestamp:
    """Raises ValueError."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(text)
    moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{'+00:00' if match[4] in 'Zz' else match[4]}")
    return at_nanoseconds(int((moment - _EPOCH).total_seconds()) * _SECOND + int((match[3] or "0")[:9].ljust(9, "0")))


def at_nanoseconds(ns: int) -> Timestamp:
    """Raises ValueError."""
    if not _FIRST <= ns < _LAST:
        raise ValueError("timestamp overflow")
    return Timestamp(ns)


def duration(text: str) -> Duration:
    """Raises ValueError."""
    body = text[1:] if text[:1] in ("-", "+") else text
    if body == "0":
        return Duration(0)
    parts = _DURATION.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body or len(body) > 100:
        raise ValueError(text)
    whole = int(sum(Fraction(number.rstrip(".")) * _UNITS[unit] for number, unit in parts))
    if whole >= 1 << 63:
        raise ValueError(text)
    return Duration(-whole if text[0] == "-" else whole)


def equal(value: Any, other: Any) -> bool:
    kind = type(value)
    if kind is type(other):
        if kind is list:
            return len(value) == len(other) and all(map(equal, value, other))
        if kind is dict:
            return len(value) == len(other) and all(key in other and equal(value[key], other[key]) for key in value)
        if kind is Optional:
            return len(value.content) == len(other.content) and all(map(equal, value.content, other.content))
        return bool(value == other)
    return kind in NUMBERS and type(other) in NUMBERS and bool(value == other)


def compare(value: Any, other: Any) -> int | None:
    """Below zero, zero or above; None for a number that is none. Raises NoValue where there is no order."""
    kind, another = type(value), type(other)
    if kind is another and kind in (int, str, float, bytes, bool, UInt, Timestamp, Duration):
        pass
    elif kind not in NUMBERS or another not in NUMBERS:
        raise NoValue(NO_OVERLOAD)
    if (kind is float and math.isnan(value)) or (another is float and math.isnan(other)):
        return None
    return int(value > other) - int(value < other)


def weight(value: Any) -> int:
    """Of a text its characters, of a list or a map its entries; of anything else one."""
    if type(value) in (str, bytes, list, dict):
        return len(value)
    if type(value) is Optional and value.content:
        return weight(value.content[0])
    return 1


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    type(None): "null_type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Optional: "optional_type",
    TypeValue: "type",
}


def type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value)) or str(getattr(value, "TYPE", Type("dyn", "dyn")))


def no_such_key(key: Any) -> NoValue:
    return NoValue(f"no such key: {printed(key)}")


def printed(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    return str(value)


def number_text(value: float) -> str:
    """As Go prints a double with %g and the fewest digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits = repr(value)
    if ("e" not in digits and 1e-4 <= abs(value) < 1e21) or value == 0:
        return digits.removesuffix(".0")
    mantissa, _, exponent = f"{value:e}".partition("e")
    mantissa = repr(float(value)).partition("e")[0].removesuffix(".0") if "e" in digits else mantissa.rstrip("0")
    return f"{mantissa.rstrip('.')}e{exponent}"
