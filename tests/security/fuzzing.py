"""Objects that are valid by the schemas that the hub serves, and one thing wrong with each.

Random bytes die at the parser. What reaches the readers, printers and rules behind it is an object that is right in
all but one place, however deep that is: so an object is grown from the schema of its kind, and then mutated once.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from api.admission.kubernetes import CHECKS
from api.admission.kubernetes.language import Check
from api.admission.signing import CLIENT_SIGNER
from api.engine.builtin import complete
from api.engine.kind import Kind
from api.engine.schema import Node, compiled
from tests.api.signing import request
from tests.api.sound_table import SOUND

DEPTH_MAX = 7  # of what is grown
NESTED = 90  # levels of a value that is nested for its own sake; the API takes 100
LONG = 20_000
MANY = 300

Path = tuple[str | int, ...]


def _pod(container: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}


_POD = _pod("a")
_WORKLOAD = {
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, **_POD}},
}
_JOBS = {
    "pytorchjobs": ("pytorchReplicaSpecs", "Master", "pytorch"),
    "tfjobs": ("tfReplicaSpecs", "Worker", "tensorflow"),
    "mpijobs": ("mpiReplicaSpecs", "Launcher", "mpi"),
    "jaxjobs": ("jaxReplicaSpecs", "Worker", "jax"),
    "paddlejobs": ("paddleReplicaSpecs", "Worker", "paddle"),
    "xgboostjobs": ("xgbReplicaSpecs", "Master", "xgboost"),
}
_SELECTORS = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}]
_MATCHED = {
    "resourceRules": [
        {"apiGroups": ["no.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothing"]},
    ],
}
_BASES: dict[str, dict[str, Any]] = {
    **{
        name: {"spec": {field: {replica: {"replicas": 1, "template": _pod(container)}}}}
        for name, (field, replica, container) in _JOBS.items()
    },
    "jobs": {"spec": {"template": {"spec": {**_POD["spec"], "restartPolicy": "Never"}}}},
    "pods": _POD,
    **dict.fromkeys(("deployments", "statefulsets"), _WORKLOAD),
    "workloadinterpreters": {
        "spec": {
            "target": {"group": "fuzz.example.com", "kind": "Thing"},
            "components": [{"name": "main", "replicas": "object.spec.size", "template": "object.spec.template"}],
            "state": [{"state": "Running", "when": "status.ready > 0", "message": "status.message"}],
            "timeToLive": [{"path": "object.spec.ttl"}],
            "managedBy": {"path": "object.spec.managedBy"},
            "rules": [
                {
                    "forEach": "object.spec.groups",
                    "field": "size",
                    "rule": "item.size > 0",
                    "message": "must be above 0",
                }
            ],
            "defaults": [{"path": "object.spec.size", "value": "1"}],
            "placement": [
                {
                    "forEach": "object.spec.groups",
                    "field": "rack",
                    "level": "item.rack",
                    "of": "item.name",
                    "size": "item.size",
                    "most": "item.most",
                    "hard": "true",
                }
            ],
            "groups": "object.spec.groups",
        },
    },
    "notificationreceivers": {
        "spec": {"webhook": {"url": "https://chat.example.com/hook"}, "selector": {"matchLabels": {"a": "b"}}},
    },
    "hypernodes": {
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "^te[12]$"}}}]},
    },
    "elasticquotatrees": {
        "spec": {
            "root": {
                "name": "r",
                "min": {"cpu": 4},
                "max": {"cpu": 4},
                "children": [{"name": "a", "min": {"cpu": 1}, "max": {"cpu": 4}, "namespaces": ["team"]}],
            }
        },
    },
    "propagationpolicies": {"spec": {"resourceSelectors": _SELECTORS, "placement": {}}},
    "clusterpropagationpolicies": {"spec": {"resourceSelectors": _SELECTORS, "placement": {}}},
    "overridepolicies": {
        "spec": {
            "resourceSelectors": _SELECTORS,
            "overrideRules": [
                {"overriders": {"plaintext": [{"path": "/metadata/labels/a", "operator": "add", "value": "b"}]}}
            ],
        },
    },
    "roles": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "clusterroles": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "customresourcedefinitions": {
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {
                                        "size": {"type": "integer", "minimum": 1, "default": 1},
                                        "tags": {
                                            "type": "array",
                                            "maxItems": 9,
                                            "items": {"type": "string", "pattern": "^[a-z]+$"},
                                        },
                                    },
                                    "x-kubernetes-validations": [{"rule": "self.size > 0"}],
                                }
                            },
                        }
                    },
                }
            ],
        },
    },
    "resourcebindings": {"spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}}},
    "priorityclasses": {"value": 1},
    "validatingadmissionpolicies": {"spec": {"matchConstraints": _MATCHED, "validations": [{"expression": "true"}]}},
    "validatingadmissionpolicybindings": {"spec": {"policyName": "p", "validationActions": ["Deny"]}},
    "mutatingadmissionpolicies": {
        "spec": {
            "matchConstraints": _MATCHED,
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        }
    },
    "mutatingadmissionpolicybindings": {"spec": {"policyName": "p"}},
    "certificatesigningrequests": {
        "spec": {"request": request(), "signerName": CLIENT_SIGNER, "usages": ["client auth"]},
    },
}
_BASES["clusteroverridepolicies"] = _BASES["overridepolicies"]
_BASES["clusterrolebindings"] = copy.deepcopy(_BASES["rolebindings"])
_BASES["clusterrolebindings"]["roleRef"]["kind"] = "ClusterRole"


for _path, _sound in SOUND.values():
    _rest = {key: value for key, value in _sound.items() if key not in ("apiVersion", "kind", "metadata")}
    _BASES.setdefault(_path.rsplit("/", 1)[1], _rest)


def valid(rng: Random, kind: Kind, name: str, namespace: str) -> dict[str, Any]:
    """An object that its schema takes (what else its rules ask for, the bases have), with up to three parts grown. A
    part that Kubernetes refuses in one of its own kinds is not grown."""
    root = compiled(kind)
    body: dict[str, Any] = copy.deepcopy(_BASES.get(kind.resource, {}))
    for key in root.required:
        body.setdefault(key, sample(rng, root.child(key), 2))
    if kind.resource == "customresourcedefinitions":
        name = "things.fuzz.example.com"
    body |= {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    if kind.namespaced:
        body["metadata"]["namespace"] = namespace
    check = CHECKS.get((kind.group, kind.resource)) if kind.builtin else None
    for _ in range(rng.randint(0, 3)):
        grown = copy.deepcopy(body)
        _grow(rng, root, grown)
        if check is None or not _refused(kind, check, grown):
            body = grown
    return body


def _refused(kind: Kind, check: Check, body: dict[str, Any]) -> bool:
    filled = copy.deepcopy(body)
    complete(kind, filled)
    return any(check(filled, ""))


# Any value would be refused, or nearly any.
_NOT_GROWN = ("apiVersion", "kind", "resourceVersion", "ownerReferences", "jsonPatch", "variables")


def _grow(rng: Random, root: Node, body: dict[str, Any]) -> None:
    """Add one field that the schema knows, anywhere in what is there."""
    places = [(node, value) for node, value in _objects(root, body) if node.raw.get("properties")]
    node, value = rng.choice(places)
    fields = [key for key in node.raw["properties"] if key not in value and key not in _NOT_GROWN]
    if fields:
        key = rng.choice(fields)
        value[key] = sample(rng, node.child(key), 0)


def _objects(node: Node | None, value: Any) -> Iterator[tuple[Node, dict[str, Any]]]:
    if node is None:
        return
    if isinstance(value, dict):
        yield node, value
        for key, inner in value.items():
            yield from _objects(node.child(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(node.items, inner)


def sample(rng: Random, node: Node | None, depth: int) -> Any:
    """A value that the schema takes."""
    if node is None or depth > DEPTH_MAX:
        return {}
    if node.enum:
        return rng.choice(node.enum)
    if node.int_or_string:
        return rng.choice([1, "50%"])
    match node.type:
        case "string":
            return _text(rng, node)
        case "integer":
            return rng.randint(int(node.minimum or 0), int(node.maximum or (node.minimum or 0) + 9))
        case "number":
            return float(node.minimum or 0) + 0.5
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [sample(rng, node.items, depth + 1) for _ in range(max(1, node.min_items or 0))]
    if node.raw.get("format") == "quantity":
        return rng.choice(["1", 2, "500m"])
    found: dict[str, Any] = {key: sample(rng, node.child(key), depth + 1) for key in node.required}
    if node.additional is not None:
        found["a"] = sample(rng, node.additional, depth + 1)
    fields = [key for key in node.raw.get("properties") or () if key not in found]
    for key in rng.sample(fields, min(len(fields), rng.randint(0, 3))):
        found[key] = sample(rng, node.child(key), depth + 1)
    return found


def _text(rng: Random, node: Node) -> str:
    match node.format:
        case "date-time":
            return "2026-01-01T00:00:00Z"
        case "byte":
            return "YQ=="
    return rng.choice(["a", "b", "Always", "ab-1"])[: node.max_length or 9].ljust(node.min_length or 0, "a")


# -- mutations: each takes what stands in a place and gives what shall stand there instead


class Raw:
    """A piece of JSON text that json.dumps would not write."""

    def __init__(self, text: str) -> None:
        self.text = text


def _nested(value: Any, levels: int = NESTED) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def _other_type(rng: Random, value: Any) -> Any:
    return rng.choice([v for v in (1, 1.5, "x", True, [], {}, [1], {"a": 1}) if v.__class__ is not value.__class__])


def _with_key(key: Any) -> Callable[[Random, Any], Any]:
    return lambda rng, value: {**(value if isinstance(value, dict) else {}), key: rng.choice([None, 1, "x", {}])}


def _twice(rng: Random, value: Any) -> Any:
    return [*value, *copy.deepcopy(value)] if isinstance(value, list) else [value, value]


ODD_TEXTS = ["\x00", "a\nb", "ä💥", "../..", "%s{}", "a" * 64, "2026-13-45T99:99:99Z", "9999-12-31T23:59:59-23:59"]
MUTATIONS: dict[str, Callable[[Random, Any], Any]] = {
    "null": lambda rng, value: None,
    "null item": lambda rng, value: [*value, None] if isinstance(value, list) else [None],
    "null entry": _with_key("a"),
    "other type": _other_type,
    "other type of item": lambda rng, value: [*(value if isinstance(value, list) else []), _other_type(rng, {})],
    "huge integer": lambda rng, value: rng.choice([2**31, 2**63, -(2**63) - 1, 2**64, Raw("9" * 400)]),
    "huge exponent": lambda rng, value: rng.choice([1e30, 1e300, Raw("1e400"), Raw("1e-400"), Raw("-1E+999999")]),
    "quantity": lambda rng, value: rng.choice(["1e30", "-1", "1Xi", "", "٣", "nan", "9" * 60, "1e99", ".", "+"]),
    "not a number": lambda rng, value: rng.choice([Raw("NaN"), Raw("Infinity"), Raw("-Infinity")]),
    "negative": lambda rng, value: rng.choice([-1, -0.0, -(2**31)]),
    "boolean": lambda rng, value: rng.random() < 0.5,
    "empty text": lambda rng, value: "",
    "odd text": lambda rng, value: rng.choice(ODD_TEXTS),
    "long text": lambda rng, value: "a" * LONG,
    "half a surrogate": lambda rng, value: rng.choice([Raw('"\\ud800"'), Raw('"a\\udfff"')]),
    "unknown word": lambda rng, value: "Bogus",
    "empty list": lambda rng, value: [],
    "empty object": lambda rng, value: {},
    "same item twice": _twice,
    "many items": lambda rng, value: (value if isinstance(value, list) and value else ["x"]) * MANY,
    "many entries": lambda rng, value: {f"k{i}": "x" for i in range(MANY)},
    "nested": lambda rng, value: _nested(value),
    "nested null": lambda rng, value: _nested(None, rng.randint(1, 5)),
    "unknown field": _with_key("bogus"),
    "long key": _with_key("k" * LONG),
    "empty key": _with_key(""),
    "odd key": _with_key("a/b/c\n"),
    "dollar key": _with_key("$patch"),
}


def mutated(
    rng: Random, body: Any, mutation: str, within: Callable[[Path], bool] = lambda path: True
) -> tuple[Any, Path]:
    """A copy of `body` with the mutation applied in one place, and that place."""
    path = rng.choice([path for path in _paths(body) if within(path)] or [("spec",)])
    new = copy.deepcopy(body)
    holder = new
    for step in path[:-1]:
        holder = holder[step]
    before = holder.get(path[-1]) if isinstance(holder, dict) else holder[path[-1]]
    holder[path[-1]] = MUTATIONS[mutation](rng, before)
    return new, path


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(inner, (*path, key))


def encoded(body: Any) -> bytes:
    """As JSON, which is YAML too; `Raw` pieces as they are."""
    raws: list[str] = []

    def put(value: Any) -> Any:
        if isinstance(value, Raw):
            raws.append(value.text)
            return f"\ue000{len(raws) - 1}\ue001"
        raise TypeError(value)

    text = json.dumps(body, default=put)
    for index, raw in enumerate(raws):
        text = text.replace(f'"\\ue000{index}\\ue001"', raw)
    return text.encode()


def plain(value: Any) -> Any:
    """`value` as a store could hold it: without pieces that no JSON parser takes."""
    if isinstance(value, Raw):
        return None
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, int) and abs(value) >= 2**63:
        return 2**63 - 1
    return value
