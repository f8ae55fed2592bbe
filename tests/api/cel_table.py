"""Rules in CEL, and objects under rules, that a real kube-apiserver and ours are asked about."""

from __future__ import annotations

from typing import Any

GROUP = "cel.example.com"


def crd(kind: str, spec: dict[str, Any], **version: Any) -> dict[str, Any]:
    """A CRD whose objects have this schema under `spec`."""
    schema = {"type": "object", "properties": {"spec": spec}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}
            ],
        },
    }


_TEXT, _WHOLE, _NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
_SHORT = {"type": "string", "maxLength": 10}
_PART = {"type": "object", "properties": {"n": _TEXT, "f": _NUMBER}}
FIELDS: dict[str, Any] = {
    "x": _WHOLE,
    "s": _TEXT,
    "ms": {"type": "string", "maxLength": 100},
    "n": _NUMBER,
    "b": {"type": "boolean"},
    "when": {"type": "string", "format": "date-time"},
    "dur": {"type": "string", "format": "duration"},
    "by": {"type": "string", "format": "byte"},
    "l": {"type": "array", "items": _WHOLE},
    "ml": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}},
    "m": {"type": "object", "additionalProperties": _WHOLE},
    "mm": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 5}},
    "q": {"type": "array", "items": _PART},
    "namespace": _TEXT,
    "a-b": _TEXT,
    "mq": {"type": "array", "maxItems": 20, "items": {"type": "object", "properties": {"n": _SHORT, "f": _NUMBER}}},
    "ios": {"x-kubernetes-int-or-string": True},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
    "o": {"type": "object", "properties": {"p": {"type": "object", "properties": {"q": _TEXT}}}},
}

# Each is asked as the rule of an object with FIELDS.
EXPRESSIONS = r"""
self.x == 3
self.x == "a"
self.y
self.x
self.l.all(i, v, v > 0)
self.l.all(x, x > "a")
self.l.map(x, x*2).sum() == 3
self.l.exists_one(x, x == 1)
self.q.exists(e, e.n == "a" && e.z == 1)
quantity("1").isGreaterThan(quantity("2"))
self.?x.orValue(3) == 3
self.q[?0].?n.orValue("") == ""
{"a":1}.transformMap(k, v, v+1) == {"a": 2}
[1,"a"] == []
self.s.foo()
self.s.matches("a") &&
self.mm.transformMapEntry(k, v, {v: k}) == {}
self.l.sortBy(x, -x) == []
optional.of(1).optMap(v, v + 1).orValue(2) == 1
self.x.all(k, k)
ip("1.2.3.4").family() == 4
format.dns1123Label().validate(self.s).hasValue()
format.dns1123Label().validate(self.ms).hasValue()
has(self)
Foo{a: 1} == 1
type(self.x) == int
self.namespace == ""
self.__namespace__ == ""
self.a__dash__b == ""
timestamp("2020-01-01T00:00:00Z") - self.when < duration("1h")
timestamp("xx") < self.when
duration("xx") < self.dur
1 in self.q
self.l + [1.0] == []
!self.x
"a".format([1, "a"]) == ""
"%s %d".format([self.s, self.x]) == ""
self.x ? 1 : 2
self.s.lowerAscii() == "a" || 1
self.x && self.s
(self.x
{'a': 1}[1] == 2
self.s.matches("[")
self.s.matches("^[a-z]+$")
self.s.contains(self.s)
self == oldSelf
self.l.all(x, self.l.all(y, x == y))
self.ml.all(x, self.ml.exists(y, x == y))
self.q.all(x, self.q.exists(y, x.n == y.n))
self.mq.all(x, self.mq.exists_one(y, x.n == y.n))
self.mq.map(x, x.n).isSorted()
self.q.map(x, x.n).all(z, z.contains("x"))
self.ml.join(",").size() < 3
self.set.join(",").contains("abc")
self.s.split(",").all(z, z.size() < 3)
self.s.replace("a", "bb").contains("c")
self.set == oldSelf.set
sets.contains(self.set, ["a"])
self.ml.sort() == []
self.set.max() > ""
self.ml.distinct().size() == 3
url(self.s).getHost() == ""
type(self.ios) == string ? self.ios.matches(r'\d+%') : self.ios < 5
self.by == b"abc"
self.mm.all(k, v, v.contains(k))
cel.bind(a, 1, a == 1)
self.x == 1u
self.n == 1
self.n > 1
self.x + self.n > 2.0
self.l.all(self.x, true)
self.l.map(x) == []
math.greatest(1, 2) == 2
lists.range(self.x).all(x, x < 3)
[[1],[2]].flatten() == [1]
semver("1.2.3").major() == 1
cidr("10.0.0.0/8").containsIP(self.ms)
authorizer.path("/").check("get").allowed()
self.l.exists(x, x in self.l)
self.metadata.name == "a"
self.x == 99999999999999999999
null == self.s
self.o == null
if == 1
self.for == 1
[self.x, self.s] == []
{1: "a", "b": 2} == {}
dyn([1, "a"]) == []
self.q.all(e, e.n.matches("^[a-z]{1,20}$"))
self.ml.indexOf("a") > 3
self.ms.lastIndexOf("a", 3) > 3
self.ms.findAll("[a-z]", 3).all(z, z == "a")
self.ml.all(x, isIP(x))
self.mq.all(x, self.mq.all(y, self.mq.all(z, x.n == y.n && y.n == z.n)))
(self.x > 1 ? self.ml : ["a"]).all(z, z.contains("q"))
"\q" == self.s
""".strip().split("\n")
_ASKED = "self.x > 1"
# The other fields of a rule.
RULES: list[dict[str, Any]] = [
    *({"rule": text} for text in EXPRESSIONS),
    {"rule": "self.x > oldSelf.x", "optionalOldSelf": True},
    {"rule": "!oldSelf.hasValue() || self.x > oldSelf.value().x", "optionalOldSelf": True},
    {"rule": _ASKED, "optionalOldSelf": True},
    {"rule": _ASKED, "messageExpression": "self.x"},
    {"rule": _ASKED, "messageExpression": "'a' + self.zz"},
    {"rule": _ASKED, "messageExpression": "'a' + string(self.x)"},
    {"rule": _ASKED, "messageExpression": "self.s + self.s.replace('a', self.s)"},
    {"rule": _ASKED, "messageExpression": "  "},
    {"rule": _ASKED, "message": "  "},
    {"rule": _ASKED, "message": "a\nb"},
    {"rule": f"{_ASKED}\n", "message": "a"},
    {"rule": "self.x > \n1"},
    {"rule": "  "},
    {"rule": _ASKED, "reason": "Foo"},
    {"rule": _ASKED, "reason": "FieldValueRequired", "fieldPath": ".x"},
    *({"rule": _ASKED, "fieldPath": path} for path in (".y", "x", ".mm['a']", ".o.p['q']", ".l[0]", ".x ")),
]
_OLD = [{"rule": "self == oldSelf"}]
# Rules of other places than an object under `spec`.
PLACES: dict[str, dict[str, Any]] = {
    "an atomic list": {"type": "array", "maxItems": 5, "items": {**_SHORT, "x-kubernetes-validations": _OLD}},
    "a map list": {
        "type": "array",
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["n"],
        "items": {
            "type": "object",
            "required": ["n"],
            "properties": {"n": _SHORT, "f": {**_WHOLE, "x-kubernetes-validations": _OLD}},
        },
    },
    "an atomic object": {
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {"n": {**_SHORT, "x-kubernetes-validations": _OLD}},
    },
    "many places": {
        "type": "array",
        "items": {**_TEXT, "x-kubernetes-validations": [{"rule": "self.contains('a')"}]},
    },
    "many places with a bound": {
        "type": "array",
        "maxItems": 100,
        "items": {**_SHORT, "x-kubernetes-validations": [{"rule": "self != 'a'"}]},
    },
    "a map of texts": {
        "type": "object",
        "additionalProperties": {**_TEXT, "x-kubernetes-validations": [{"rule": "self != 'a'"}]},
    },
    "an embedded object": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-validations": [{"rule": "self.metadata.name != 'a' && self.kind == 'B'"}],
    },
    "several rules, of which one is wrong": {
        "type": "object",
        "properties": {"x": _WHOLE},
        "x-kubernetes-validations": [{"rule": "self.x > 1"}, {"rule": "self.z > 1"}, {"rule": "self.x"}],
    },
}


def _rule(text: str, **more: Any) -> dict[str, Any]:
    return {"rule": text, **more}


# The CRD whose objects are written.
THING = crd(
    "Thing",
    {
        "type": "object",
        "properties": {
            "x": {**_WHOLE, "x-kubernetes-validations": [_rule("self >= 0", message="not below zero")]},
            "grows": {**_WHOLE, "x-kubernetes-validations": [_rule("self >= oldSelf", reason="FieldValueForbidden")]},
            "once": {
                **_SHORT,
                "x-kubernetes-validations": [
                    _rule("!oldSelf.hasValue() || oldSelf.value() == self", optionalOldSelf=True, message="is set once")
                ],
            },
            "name": {
                **_SHORT,
                "x-kubernetes-validations": [
                    _rule("self.startsWith('a')", messageExpression="'must start with a, not ' + self.substring(0, 1)")
                ],
            },
            "kept": {**_SHORT, "x-kubernetes-validations": [_rule("self != 'bad'", reason="FieldValueDuplicate")]},
            "when": {
                "type": "string",
                "format": "date-time",
                "x-kubernetes-validations": [_rule("self > timestamp('2020-01-01T00:00:00Z')", message="too early")],
            },
            "ios": {
                "x-kubernetes-int-or-string": True,
                "x-kubernetes-validations": [
                    _rule("type(self) == int ? self > 1 : self.endsWith('%')"),
                    _rule("self > 1"),
                ],
            },
            "items": {
                "type": "array",
                "maxItems": 9,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {
                    "type": "object",
                    "required": ["k"],
                    "properties": {
                        "k": _SHORT,
                        "v": {**_WHOLE, "x-kubernetes-validations": [_rule("self >= oldSelf"), _rule("self < 100")]},
                    },
                },
            },
            "labels": {"type": "object", "maxProperties": 9, "additionalProperties": _SHORT},
            "parts": {
                "type": "array",
                "maxItems": 9,
                "items": {
                    "type": "object",
                    "properties": {"n": _WHOLE, "d": _WHOLE},
                    "x-kubernetes-validations": [_rule("self.n / self.d > 0")],
                },
            },
        },
        "x-kubernetes-validations": [
            _rule("!has(self.labels) || !('no' in self.labels)", fieldPath=".labels['no']", message="is not allowed"),
            _rule(
                "!has(self.x) || !has(self.grows) || self.x <= self.grows",
                reason="FieldValueRequired",
                fieldPath=".grows",
                messageExpression="self.x > 4 ? 'grows must be at least 5' : 'grows is small'",
            ),
            _rule(
                "!has(self.name) || self.name != 'a-line'",
                message="fixed",
                messageExpression="self.name + '\\n'  + 'x' + '\\n'",
            ),
        ],
    },
)

# what -> (the spec that is there, None for a create; the spec that is written)
WRITES: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "all is well": (None, {"x": 1, "grows": 2, "once": "a", "name": "ab", "labels": {"yes": "1"}}),
    "below zero": (None, {"x": -1}),
    "a path with a key": (None, {"labels": {"no": "1"}}),
    "a message that is computed": (None, {"x": 5, "grows": 2}),
    "a message of the text": (None, {"name": "ba"}),
    "a message that fails": (None, {"name": ""}),
    "a message with lines": (None, {"name": "a-line"}),
    "a duplicate": (None, {"kept": "bad"}),
    "too early": (None, {"when": "2019-01-01T00:00:00Z"}),
    "an int or a text": (None, {"ios": 5}),
    "an int or a text, a text": (None, {"ios": "5%"}),
    "a division by zero": (None, {"parts": [{"n": 1, "d": 1}, {"n": 1, "d": 0}]}),
    "no such key": (None, {"parts": [{"n": 1}]}),
    "several flaws": (None, {"x": -1, "kept": "bad", "labels": {"no": "1"}}),
    "a value of a wrong type": (None, {"x": "a", "kept": "bad"}),
    "it grows": ({"grows": 1}, {"grows": 2}),
    "it shrinks": ({"grows": 2}, {"grows": 1}),
    "it is set once": ({"once": "a"}, {"once": "b"}),
    "it is set": ({"x": 1}, {"x": 1, "once": "b"}),
    "an item shrinks": (
        {"items": [{"k": "a", "v": 5}, {"k": "b", "v": 7}]},
        {"items": [{"k": "b", "v": 6}, {"k": "a", "v": 5}]},
    ),
    "an item is new": ({"items": [{"k": "a", "v": 5}]}, {"items": [{"k": "b", "v": 1}, {"k": "a", "v": 5}]}),
}


def _column(**column: Any) -> dict[str, Any]:
    return crd(
        "Part", _PART, additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".spec.n", **column}]
    )


def _selectable(*paths: str) -> dict[str, Any]:
    return crd("Part", _PART, selectableFields=[{"jsonPath": path} for path in paths])


def _scale(**paths: str) -> dict[str, Any]:
    scale = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", **paths}
    return crd("Part", _PART, subresources={"scale": scale})


def _named(**names: Any) -> dict[str, Any]:
    body = crd("Part", _PART)
    body["spec"]["names"].update(names)
    body["metadata"]["name"] = f"{body['spec']['names']['plural']}.{GROUP}"
    return body


def _spec(**spec: Any) -> dict[str, Any]:
    body = crd("Part", _PART)
    body["spec"].update(spec)
    body["metadata"]["name"] = f"parts.{body['spec']['group']}"
    return body


def _version(name: str, **more: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _PART}}}
    return {"name": name, "served": True, "storage": False, "schema": schema, **more}


_WRONG = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "1"}]}}}
# CRDs with flaws in their other parts.
DEFINITIONS: dict[str, dict[str, Any]] = {
    "a good column": _column(),
    "a column without a name": _column(name=""),
    "a column of no type": _column(type=""),
    "a column of another type": _column(type="text"),
    "a column of another format": _column(format="text"),
    "a column without a path": _column(jsonPath=""),
    "a column with a path that is none": _column(jsonPath="spec.n"),
    "selectable fields": _selectable(".spec.n"),
    "a selectable field that is not there": _selectable(".spec.zz"),
    "a selectable field that is an object": _selectable(".spec"),
    "a selectable field twice": _selectable(".spec.n", ".spec.n"),
    "a selectable field without a dot": _selectable("spec.n"),
    "a selectable field with brackets": _selectable(".spec['n']"),
    "a selectable field without a path": _selectable(""),
    "a scale": _scale(),
    "a scale outside of spec": _scale(specReplicasPath=".status.n"),
    "a scale without a path": _scale(statusReplicasPath=""),
    "a scale with a path that is none": _scale(specReplicasPath="spec.n"),
    "a scale with a selector in metadata": _scale(labelSelectorPath=".metadata.x"),
    "a scale with a selector": _scale(labelSelectorPath=".status.selector"),
    "a plural in capitals": _named(plural="Parts"),
    "a plural that begins with a digit": _named(plural="1parts"),
    "a singular in capitals": _named(singular="Part"),
    "a kind with a blank": _named(kind="A B"),
    "a kind that is its list": _named(listKind="Part"),
    "a short name with a dot": _named(shortNames=["a.b", "ok"]),
    "a category in capitals": _named(categories=["All"]),
    "a group without a dot": _spec(group="example"),
    "a group in capitals": _spec(group="Example.com"),
    "another scope": _spec(scope="World"),
    "a version in capitals": _spec(versions=[_version("V1", storage=True)]),
    "two versions": _spec(versions=[_version("v1", storage=True), _version("v2")]),
    "two versions that share a flaw": _spec(
        versions=[
            _version("v1", storage=True, schema={"openAPIV3Schema": _WRONG}),
            _version("v2", schema={"openAPIV3Schema": _WRONG}),
        ]
    ),
    "two versions, of which one is wrong": _spec(
        versions=[
            _version("v1", storage=True),
            _version("v2", schema={"openAPIV3Schema": _WRONG}),
        ]
    ),
}
