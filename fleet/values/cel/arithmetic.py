"""The operators of CEL over values: sums, comparisons, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fleet.values.cel.values import (
    NO_OVERLOAD,
    NONE,
    Duration,
    Evaluation,
    NoValue,
    Optional,
    Timestamp,
    TypeValue,
    at_nanoseconds,
    compare,
    duration,
    equal,
    no_such_key,
    number_text,
    timestamp,
    type_name,
    weight,
)
from fleet.values.cel.words import UInt

_MIN, _MAX, _UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_COPIED = 8  # items of a list that are copied in one step


def whole(value: int) -> int:
    if not _MIN <= value <= _MAX:
        raise NoValue("integer overflow")
    return value


def unsigned(value: int) -> UInt:
    if not 0 <= value <= _UINT_MAX:
        raise NoValue("unsigned integer overflow")
    return UInt(value)


def span(ns: int) -> Duration:
    if not _MIN <= ns <= _MAX:
        raise NoValue("duration overflow")
    return Duration(ns)


def moment(ns: int) -> Timestamp:
    try:
        return at_nanoseconds(ns)
    except ValueError as problem:
        raise NoValue(str(problem)) from None


def add(run: Evaluation, value: Any, other: Any) -> Any:
    pair = (type(value), type(other))
    if pair == (int, int):
        return whole(value + other)
    if pair in ((str, str), (bytes, bytes)):
        run.traverse(len(value) + len(other))
        return value + other
    if pair == (list, list):
        run.spend((len(value) + len(other)) // _COPIED)
        return value + other
    if pair == (float, float):
        return value + other
    if pair == (UInt, UInt):
        return unsigned(int(value) + int(other))
    if pair == (Duration, Duration):
        return span(value.ns + other.ns)
    if pair in ((Timestamp, Duration), (Duration, Timestamp)):
        return moment(value.ns + other.ns)
    raise NoValue(NO_OVERLOAD)


def subtract(run: Evaluation, value: Any, other: Any) -> Any:
    pair = (type(value), type(other))
    if pair == (int, int):
        return whole(value - other)
    if pair == (float, float):
        return value - other
    if pair == (UInt, UInt):
        return unsigned(int(value) - int(other))
    if pair in ((Duration, Duration), (Timestamp, Timestamp)):
        return span(value.ns - other.ns)
    if pair == (Timestamp, Duration):
        return moment(value.ns - other.ns)
    raise NoValue(NO_OVERLOAD)


def multiply(run: Evaluation, value: Any, other: Any) -> Any:
    pair = (type(value), type(other))
    if pair == (int, int):
        return whole(value * other)
    if pair == (float, float):
        return value * other
    if pair == (UInt, UInt):
        return unsigned(int(value) * int(other))
    raise NoValue(NO_OVERLOAD)


def divide(run: Evaluation, value: Any, other: Any) -> Any:
    pair = (type(value), type(other))
    if pair == (float, float):
        if other:
            return value / other
        return math.nan if not value or math.isnan(value) else math.copysign(math.inf, value) * math.copysign(1, other)
    if pair not in ((int, int), (UInt, UInt)):
        raise NoValue(NO_OVERLOAD)
    if not other:
        raise NoValue("division by zero")
    quotient = abs(int(value)) // abs(int(other))
    return UInt(quotient) if pair[0] is UInt else whole(quotient if (value < 0) == (other < 0) else -quotient)


def modulo(run: Evaluation, value: Any, other: Any) -> Any:
    pair = (type(value), type(other))
    if pair not in ((int, int), (UInt, UInt)):
        raise NoValue(NO_OVERLOAD)
    if not other:
        raise NoValue("modulus by zero")
    rest = abs(int(value)) % abs(int(other))
    return UInt(rest) if pair[0] is UInt else -rest if value < 0 else rest


def negate(run: Evaluation, value: Any) -> Any:
    if type(value) is int:
        return whole(-value)
    if type(value) is float:
        return -value
    raise NoValue(NO_OVERLOAD)


def invert(run: Evaluation, value: Any) -> bool:
    if value is True or value is False:
        return not value
    raise NoValue(NO_OVERLOAD)


def same(run: Evaluation, one: Any, other: Any) -> bool:
    _charge_compared(run, one, other)
    return equal(one, other)


def different(run: Evaluation, one: Any, other: Any) -> bool:
    _charge_compared(run, one, other)
    return not equal(one, other)


def _charge_compared(run: Evaluation, one: Any, other: Any) -> None:
    """As Kubernetes counts, and of what is nested all of the smaller."""
    if type(one) in (list, dict) and type(other) in (list, dict):
        run.spend(min(_nodes(one, run.balance), _nodes(other, run.balance)) // 4)
    run.traverse(min(weight(one), weight(other)))


def _nodes(value: Any, most: int) -> int:
    """The values in a value, counted to a little above `most` at least."""
    count, pending = 0, [value]
    while pending and count <= 4 * most:
        inner = pending.pop()
        count += len(inner)
        pending += [part for part in (inner.values() if type(inner) is dict else inner) if type(part) in (list, dict)]
    return count


def ordered(test: Callable[[int], bool]) -> Callable[[Evaluation, Any, Any], bool]:
    def decide(run: Evaluation, one: Any, other: Any) -> bool:
        if type(one) in (str, bytes):
            run.traverse(min(weight(one), weight(other)))
        found = compare(one, other)
        return found is not None and test(found)

    return decide


def within(run: Evaluation, value: Any, other: Any) -> bool:
    if type(other) is list:
        run.spend(len(other))
        return any(equal(value, item) for item in other)
    if type(other) is dict:
        run.spend(1)
        return type(value) is not list and type(value) is not dict and value in other
    raise NoValue(NO_OVERLOAD)


def index(run: Evaluation, value: Any, key: Any) -> Any:
    if type(value) is list:
        if type(key) not in (int, UInt, float) or key != int(key):
            raise NoValue(NO_OVERLOAD)
        if not 0 <= key < len(value):
            raise NoValue(f"index out of bounds: {int(key)}")
        return value[int(key)]
    if type(value) is dict:
        if type(key) in (list, dict) or key not in value:
            raise no_such_key(key)
        return value[key]
    if type(value) is Optional:
        return maybe_index(run, value, key)
    raise NoValue(NO_OVERLOAD)


def maybe_index(run: Evaluation, value: Any, key: Any) -> Optional:
    if type(value) is Optional:
        return maybe_index(run, value.content[0], key) if value.content else NONE
    try:
        return Optional((index(run, value, key),))
    except NoValue as fault:
        if str(fault) == NO_OVERLOAD:
            raise
        return NONE


def size(run: Evaluation, value: Any) -> int:
    if type(value) in (str, bytes, list, dict):
        return len(value)
    raise NoValue(NO_OVERLOAD)


# -- conversions


def to_bool(run: Evaluation, value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str:
        if value in ("1", "t", "T", "TRUE", "true", "True"):
            return True
        if value in ("0", "f", "F", "FALSE", "false", "False"):
            return False
        raise NoValue("type conversion error from 'string' to 'bool'")
    raise NoValue(NO_OVERLOAD)


def to_int(run: Evaluation, value: Any) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is UInt:
        return whole(int(value))
    if kind is float:
        if not -(2.0**63) < value < 2.0**63:
            raise NoValue("integer overflow")
        return int(value)
    if kind is str:
        return int(_integer(value, "int", _MIN, _MAX))
    if kind is Timestamp:
        return int(value.ns // 1_000_000_000)
    if kind is Duration:
        return int(value.ns)
    raise NoValue(NO_OVERLOAD)


def to_uint(run: Evaluation, value: Any) -> UInt:
    kind = type(value)
    if kind in (int, UInt):
        return unsigned(int(value))
    if kind is float:
        if not 0 <= value < 2.0**64:
            raise NoValue("unsigned integer overflow")
        return UInt(value)
    if kind is str:
        return UInt(_integer(value, "uint", 0, _UINT_MAX))
    raise NoValue(NO_OVERLOAD)


def _integer(text: str, wanted: str, least: int, most: int) -> int:
    digits = text[1:] if wanted == "int" and text[:1] in ("-", "+") else text
    if digits.isascii() and digits.isdigit() and len(digits) < 100 and least <= int(text) <= most:
        return int(text)
    raise NoValue(f"type conversion error from 'string' to '{wanted}'")


def to_double(run: Evaluation, value: Any) -> float:
    if type(value) in (int, UInt, float):
        return float(value)
    if type(value) is str:
        try:
            if value == value.strip() and "_" not in value and len(value) < 400:
                return float(value)
        except ValueError:
            pass
        raise NoValue("type conversion error from 'string' to 'double'")
    raise NoValue(NO_OVERLOAD)


def to_string(run: Evaluation, value: Any) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return number_text(value)
    if kind is bytes:
        run.traverse(len(value))
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise NoValue("invalid UTF-8 in bytes, cannot convert to string") from None
    if kind in (int, UInt, Timestamp, Duration) or hasattr(value, "TYPE"):
        return str(value)
    raise NoValue(NO_OVERLOAD)


def to_bytes(run: Evaluation, value: Any) -> bytes:
    if type(value) is str:
        run.traverse(len(value))
        return value.encode()
    if type(value) is bytes:
        return value
    raise NoValue(NO_OVERLOAD)


def to_timestamp(run: Evaluation, value: Any) -> Timestamp:
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return moment(value * 1_000_000_000)
    if type(value) is str:
        try:
            return timestamp(value)
        except ValueError:
            raise NoValue("type conversion error from 'string' to 'google.protobuf.Timestamp'") from None
    raise NoValue(NO_OVERLOAD)


def to_duration(run: Evaluation, value: Any) -> Duration:
    if type(value) is Duration:
        return value
    if type(value) is int:
        return Duration(value)
    if type(value) is str:
        try:
            return duration(value)
        except ValueError:
            raise NoValue("type conversion error from 'string' to 'google.protobuf.Duration'") from None
    raise NoValue(NO_OVERLOAD)


def to_dyn(run: Evaluation, value: Any) -> Any:
    return value


def to_type(run: Evaluation, value: Any) -> TypeValue:
    return TypeValue(type_name(value))


# name -> (function, cost of a call apart from what the function itself charges)
OPERATORS: dict[str, tuple[Callable[..., Any], int]] = {
    "_+_": (add, 1),
    "_-_": (subtract, 1),
    "_*_": (multiply, 1),
    "_/_": (divide, 1),
    "_%_": (modulo, 1),
    "-_": (negate, 1),
    "!_": (invert, 1),
    "_==_": (same, 0),
    "_!=_": (different, 0),
    "_<_": (ordered(lambda found: found < 0), 1),
    "_<=_": (ordered(lambda found: found <= 0), 1),
    "_>_": (ordered(lambda found: found > 0), 1),
    "_>=_": (ordered(lambda found: found >= 0), 1),
    "@in": (within, 0),
    "_[_]": (index, 1),
    "_[?_]": (maybe_index, 1),
    "size": (size, 1),
    "type": (to_type, 1),
    "bool": (to_bool, 1),
    "int": (to_int, 1),
    "uint": (to_uint, 1),
    "double": (to_double, 1),
    "string": (to_string, 1),
    "bytes": (to_bytes, 0),
    "timestamp": (to_timestamp, 1),
    "duration": (to_duration, 1),
    "dyn": (to_dyn, 1),
}
