"""The functions that an expression can call: their overloads, as the environment of Kubernetes 1.36 declares them.

A line of a table names a function and its overloads. `string.(int) -> string` is called on its first argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.values.cel.types import NAMED, Type, list_of, map_of, optional_of, param, type_of


@dataclass(frozen=True, slots=True)
class Overload:
    """`id`: the function and the types of its arguments, as the cost model knows it."""

    id: str
    member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[str, ...]


_COMPARED = (
    "(bool, bool) (int, int) (int, double) (int, uint) (uint, uint) (uint, double) (uint, int) (double, double) "
    "(double, int) (double, uint) (string, string) (bytes, bytes) (timestamp, timestamp) (duration, duration)"
)
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_STANDARD = """
_?_:_: (bool, A, A) -> A
_&&_: (bool, bool) -> bool
_||_: (bool, bool) -> bool
!_: (bool) -> bool
@not_strictly_false: (bool) -> bool
_==_: (A, A) -> bool
_!=_: (A, A) -> bool
_+_: (bytes, bytes) -> bytes; (double, double) -> double; (duration, duration) -> duration;
 (duration, timestamp) -> timestamp; (timestamp, duration) -> timestamp; (int, int) -> int;
 (list(A), list(A)) -> list(A); (string, string) -> string; (uint, uint) -> uint
_/_: (double, double) -> double; (int, int) -> int; (uint, uint) -> uint
_%_: (int, int) -> int; (uint, uint) -> uint
_*_: (double, double) -> double; (int, int) -> int; (uint, uint) -> uint
-_: (double) -> double; (int) -> int
_-_: (double, double) -> double; (duration, duration) -> duration; (int, int) -> int;
 (timestamp, duration) -> timestamp; (timestamp, timestamp) -> duration; (uint, uint) -> uint
_[_]: (list(A), int) -> A; (map(A, B), A) -> B; (optional(list(V)), int) -> optional(V);
 (optional(map(K, V)), K) -> optional(V)
_[?_]: (list(V), int) -> optional(V); (optional(list(V)), int) -> optional(V); (map(K, V), K) -> optional(V);
 (optional(map(K, V)), K) -> optional(V)
@in: (A, list(A)) -> bool; (A, map(A, B)) -> bool
size: (bytes) -> int; bytes.() -> int; (list(A)) -> int; list(A).() -> int; (map(A, B)) -> int; map(A, B).() -> int;
 (string) -> int; string.() -> int
type: (A) -> type(A)
bool: (bool) -> bool; (string) -> bool
bytes: (bytes) -> bytes; (string) -> bytes
double: (double) -> double; (int) -> double; (string) -> double; (uint) -> double
duration: (duration) -> duration; (int) -> duration; (string) -> duration
dyn: (A) -> dyn
int: (int) -> int; (double) -> int; (duration) -> int; (string) -> int; (timestamp) -> int; (uint) -> int
string: (string) -> string; (bool) -> string; (bytes) -> string; (double) -> string; (duration) -> string;
 (int) -> string; (timestamp) -> string; (uint) -> string; (IP) -> string; (CIDR) -> string
timestamp: (timestamp) -> timestamp; (int) -> timestamp; (string) -> timestamp
uint: (uint) -> uint; (double) -> uint; (int) -> uint; (string) -> uint
contains: string.(string) -> bool
endsWith: string.(string) -> bool
startsWith: string.(string) -> bool
matches: (string, string) -> bool; string.(string) -> bool
getFullYear: timestamp.() -> int; timestamp.(string) -> int
getMonth: timestamp.() -> int; timestamp.(string) -> int
getDayOfYear: timestamp.() -> int; timestamp.(string) -> int
getDayOfMonth: timestamp.() -> int; timestamp.(string) -> int
getDate: timestamp.() -> int; timestamp.(string) -> int
getDayOfWeek: timestamp.() -> int; timestamp.(string) -> int
getHours: timestamp.() -> int; timestamp.(string) -> int; duration.() -> int
getMinutes: timestamp.() -> int; timestamp.(string) -> int; duration.() -> int
getSeconds: timestamp.() -> int; timestamp.(string) -> int; duration.() -> int
getMilliseconds: timestamp.() -> int; timestamp.(string) -> int; duration.() -> int
optional.of: (V) -> optional(V)
optional.ofNonZeroValue: (V) -> optional(V)
optional.none: () -> optional(V)
optional.unwrap: (list(optional(V))) -> list(V)
unwrapOpt: list(optional(V)).() -> list(V)
value: optional(V).() -> V
hasValue: optional(V).() -> bool
or: optional(V).(optional(V)) -> optional(V)
orValue: optional(V).(V) -> V
first: list(V).() -> optional(V)
last: list(V).() -> optional(V)
cel.@mapInsert: (map(K, V), K, V) -> map(K, V); (map(K, V), map(K, V)) -> map(K, V)
"""
_EXTENSIONS = """
charAt: string.(int) -> string
indexOf: string.(string) -> int; string.(string, int) -> int; list(T).(T) -> int
lastIndexOf: string.(string) -> int; string.(string, int) -> int; list(T).(T) -> int
lowerAscii: string.() -> string
upperAscii: string.() -> string
replace: string.(string, string) -> string; string.(string, string, int) -> string
split: string.(string) -> list(string); string.(string, int) -> list(string)
substring: string.(int) -> string; string.(int, int) -> string
trim: string.() -> string
format: string.(list(dyn)) -> string
strings.quote: (string) -> string
join: list(string).() -> string; list(string).(string) -> string
sets.contains: (list(T), list(T)) -> bool
sets.equivalent: (list(T), list(T)) -> bool
sets.intersects: (list(T), list(T)) -> bool
slice: list(T).(int, int) -> list(T)
flatten: list(list(T)).() -> list(T); list(dyn).(int) -> list(dyn)
lists.range: (int) -> list(int)
reverse: list(T).() -> list(T)
distinct: list(T).() -> list(T)
url: (string) -> URL
isURL: (string) -> bool
getScheme: URL.() -> string
getHost: URL.() -> string
getHostname: URL.() -> string
getPort: URL.() -> string
getEscapedPath: URL.() -> string
getQuery: URL.() -> map(string, list(string))
find: string.(string) -> string
findAll: string.(string) -> list(string); string.(string, int) -> list(string)
quantity: (string) -> Quantity
isQuantity: (string) -> bool
sign: Quantity.() -> int
isGreaterThan: Quantity.(Quantity) -> bool; Semver.(Semver) -> bool
isLessThan: Quantity.(Quantity) -> bool; Semver.(Semver) -> bool
compareTo: Quantity.(Quantity) -> int; Semver.(Semver) -> int
asApproximateFloat: Quantity.() -> double
asInteger: Quantity.() -> int
isInteger: Quantity.() -> bool
add: Quantity.(Quantity) -> Quantity; Quantity.(int) -> Quantity
sub: Quantity.(Quantity) -> Quantity; Quantity.(int) -> Quantity
semver: (string) -> Semver; (string, bool) -> Semver
isSemver: (string) -> bool; (string, bool) -> bool
major: Semver.() -> int
minor: Semver.() -> int
patch: Semver.() -> int
ip: (string) -> IP; CIDR.() -> IP
isIP: (string) -> bool
ip.isCanonical: (string) -> bool
family: IP.() -> int
isUnspecified: IP.() -> bool
isLoopback: IP.() -> bool
isLinkLocalMulticast: IP.() -> bool
isLinkLocalUnicast: IP.() -> bool
isGlobalUnicast: IP.() -> bool
cidr: (string) -> CIDR
isCIDR: (string) -> bool
containsIP: CIDR.(string) -> bool; CIDR.(IP) -> bool
containsCIDR: CIDR.(string) -> bool; CIDR.(CIDR) -> bool
prefixLength: CIDR.() -> int
masked: CIDR.() -> CIDR
validate: Format.(string) -> optional(list(string))
format.named: (string) -> optional(Format)
path: Authorizer.(string) -> PathCheck
group: Authorizer.(string) -> GroupCheck
serviceAccount: Authorizer.(string, string) -> Authorizer
resource: GroupCheck.(string) -> ResourceCheck
subresource: ResourceCheck.(string) -> ResourceCheck
namespace: ResourceCheck.(string) -> ResourceCheck
name: ResourceCheck.(string) -> ResourceCheck
fieldSelector: ResourceCheck.(string) -> ResourceCheck
labelSelector: ResourceCheck.(string) -> ResourceCheck
check: PathCheck.(string) -> Decision; ResourceCheck.(string) -> Decision
errored: Decision.() -> bool
error: Decision.() -> string
allowed: Decision.() -> bool
reason: Decision.() -> string
"""
FORMATS = (
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
)
_TYPE = re.compile(r"[A-Za-z]+|[(),]")
_OVERLOAD = re.compile(r"(?:(?P<target>[^.]*)\.)?\((?P<args>.*)\) -> (?P<result>.*)", re.DOTALL)


def _read_type(text: str) -> Type:
    return _typed(_TYPE.findall(text), 0)[0]


def _typed(words: list[str], place: int) -> tuple[Type, int]:
    name = words[place]
    place += 1
    if place == len(words) or words[place] != "(":
        return NAMED.get(name) or param(name), place
    inner: list[Type] = []
    while words[place] != ")":
        found, place = _typed(words, place + 1)
        inner.append(found)
    if name == "map":
        return map_of(inner[0], inner[1]), place + 1
    return {"list": list_of, "optional": optional_of, "type": type_of}[name](inner[0]), place + 1


def _split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _overload(function: str, text: str) -> Overload:
    match = _OVERLOAD.fullmatch(text.strip())
    assert match is not None, text
    args = tuple(map(_read_type, ([match["target"]] if match["target"] else []) + _split(match["args"])))
    result = _read_type(match["result"])
    names = _params(*args, result)
    return Overload(f"{function}({', '.join(map(str, args))})", bool(match["target"]), args, result, names)


def overloads(function: str, *texts: str) -> tuple[Overload, ...]:
    """`texts`: "(int, string) -> bool" each."""
    return tuple(_overload(function, text) for text in texts)


def _params(*given: Type) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for one in given:
        if one.kind == "param":
            found[one.name] = None
        found.update(dict.fromkeys(_params(*one.params)))
    return tuple(found)


def _declared() -> dict[str, tuple[Overload, ...]]:
    table: dict[str, tuple[Overload, ...]] = {}
    for line in (_STANDARD.strip() + _EXTENSIONS.rstrip()).replace(";\n ", "; ").split("\n"):
        name, overloads = line.split(": ", 1)
        table[name] = tuple(_overload(name, text) for text in overloads.split(";"))
    for sign in ("<", "<=", ">", ">="):
        pairs = re.findall(r"\([^)]*\)", _COMPARED)
        table[f"_{sign}_"] = tuple(_overload(f"_{sign}_", f"{pair} -> bool") for pair in pairs)
    for name, result in (("isSorted", "bool"), ("min", ""), ("max", "")):
        table[name] = tuple(_overload(name, f"list({one}).() -> {result or one}") for one in _COMPARABLE)
    table["sum"] = tuple(_overload("sum", f"list({one}).() -> {one}") for one in ("int", "uint", "double", "duration"))
    table["sort"] = tuple(_overload("sort", f"list({one}).() -> list({one})") for one in _COMPARABLE)
    sorting = "@sortByAssociatedKeys"
    table[sorting] = tuple(_overload(sorting, f"list(T).(list({one})) -> list(T)") for one in _COMPARABLE)
    for name in FORMATS:
        table[f"format.{name}"] = (_overload(f"format.{name}", "() -> Format"),)
    return table


FUNCTIONS = _declared()
CONSTANTS: dict[str, Type] = {
    **{name: type_of(NAMED[name]) for name in ("bool", "bytes", "double", "int", "string", "uint")},
    "list": type_of(list_of(NAMED["dyn"])),
    "map": type_of(map_of(NAMED["dyn"], NAMED["dyn"])),
    "null_type": type_of(NAMED["null"]),
    "type": type_of(type_of(NAMED["dyn"])),
    "optional_type": type_of(optional_of(NAMED["dyn"])),
    "google.protobuf.Timestamp": type_of(NAMED["timestamp"]),
    "google.protobuf.Duration": type_of(NAMED["duration"]),
    **{NAMED[key].name: type_of(NAMED[key]) for key in ("IP", "CIDR", "Quantity", "URL", "Semver", "Format")},
}
