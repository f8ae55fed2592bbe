"""The largest and oddest requests that the bounds let through, one of each sort."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
REPLICAS = "/spec/pytorchReplicaSpecs"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/default/propagationpolicies"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
JSON, YAML = "application/json", "application/yaml"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True)
class Nasty:
    name: str
    method: str
    path: str
    body: Callable[[], bytes] = bytes
    media: str = JSON
    query: str = ""
    accept: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def config_map(name: str, data: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, **metadata), "data": data or {}}


def pod(name: str, **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "x", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name), "spec": spec}


def job(name: str, **container: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x", **container}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": meta(name),
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
    }


def owners(count: int) -> list[dict[str, str]]:
    return [{"apiVersion": "v1", "kind": "A", "name": f"n{n}", "uid": f"u{n}"} for n in range(count)]


def quoted(count: int) -> dict[str, str]:
    return {f"k{n}": "" for n in range(count)}


def text(make: Callable[[], Any]) -> Callable[[], bytes]:
    return lambda: orjson.dumps(make())


def tree(count: int) -> dict[str, Any]:
    children = [{"name": f"q{n}", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "namespaces": []} for n in range(count)]
    root = {"name": "root", "min": {"cpu": "100000"}, "max": {"cpu": "100000"}, "children": children}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": meta("t", namespace="kube-system"),
        "spec": {"root": root},
    }


def role(count: int) -> dict[str, Any]:
    rules = [{"apiGroups": ["g"], "resources": [f"r{n}"], "verbs": ["get"]} for n in range(count)]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": meta("large"),
        "rules": rules,
    }


def crd(count: int) -> dict[str, Any]:
    fields = {f"f{n}": {"type": "string"} for n in range(count)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta("larges.x.io"),
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "larges", "singular": "large", "kind": "Large", "listKind": "LargeList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def policy(count: int) -> dict[str, Any]:
    chosen = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"n{n}"} for n in range(count)]
    return {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": meta("large"),
        "spec": {"resourceSelectors": chosen, "placement": {"clusterAffinity": {"clusterNames": ["m"]}}},
    }


def yaml_keys(count: int) -> bytes:
    lines = "".join(f"  k{n}: v\n" for n in range(count))
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: y}}\ndata:\n{lines}".encode()


def brackets() -> bytes:
    chains = ",".join(["[" * 95 + "]" * 95] * 15_000)
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":[' + chains.encode() + b"]}}"


ENV = [{"name": f"N{n}", "value": "v"} for n in range(9000)]
LABELS = {f"example.com/l{n}": "v" for n in range(12_000)}
NASTY = [
    Nasty("many keys", "POST", MAPS, text(lambda: config_map("a", quoted(90_000)))),
    Nasty("many keys that are wrong", "POST", MAPS, text(lambda: config_map("a", {f"/{n}": n for n in range(90_000)}))),
    Nasty("many unknown fields", "POST", MAPS, text(lambda: {**config_map("a"), **quoted(150_000)})),
    Nasty("fields given twice", "POST", MAPS, lambda: b'{"metadata":{"name":"a"},' + b'"x":1,' * 400_000 + b'"x":1}'),
    Nasty("one long text", "POST", MAPS, text(lambda: config_map("a", {"k": "x" * 1_000_000}))),
    Nasty("a long text of escapes", "POST", MAPS, text(lambda: config_map("a", {"k": '\\"\n' * 160_000}))),
    Nasty("an object of numbers", "POST", MAPS, lambda: b'{"a":[' + b"1," * 1_500_000 + b"1]}"),
    Nasty("deep chains", "POST", MAPS, brackets),
    Nasty("empty lists", "POST", MAPS, lambda: b'{"a":[' + b"[]," * 1_000_000 + b"[]]}"),
    Nasty("YAML keys", "POST", MAPS, lambda: yaml_keys(20_000), YAML),
    Nasty("YAML in one list", "POST", MAPS, lambda: b"[" + b"1," * 95_000 + b"1]", YAML),
    Nasty("YAML comments", "POST", MAPS, lambda: b"#" * 10 + b"\n#x" * 1_000_000, YAML),
    Nasty("YAML escapes", "POST", MAPS, lambda: b'a: "' + b"\\n" * 1_500_000 + b'"', YAML),
    Nasty("applied YAML", "PATCH", f"{MAPS}/y", lambda: yaml_keys(20_000), APPLY, "fieldManager=x"),
    Nasty("applied", "PATCH", f"{MAPS}/b", text(lambda: config_map("b", quoted(20_000))), APPLY, "fieldManager=x"),
    Nasty("applied too", "PATCH", f"{MAPS}/b", text(lambda: config_map("b", quoted(20_000))), APPLY, "fieldManager=y"),
    Nasty("labels", "POST", MAPS, text(lambda: config_map("c", labels=LABELS))),
    Nasty("annotations", "POST", MAPS, text(lambda: config_map("d", annotations=dict.fromkeys(LABELS, "")))),
    Nasty("owners", "POST", MAPS, text(lambda: config_map("e", ownerReferences=owners(25_000)))),
    Nasty("owners twice", "POST", MAPS, text(lambda: config_map("f", ownerReferences=owners(1000) * 2))),
    Nasty("finalizers", "POST", MAPS, text(lambda: config_map("g", finalizers=[f"a.b/{n}" for n in range(60_000)]))),
    Nasty("finalizers without a domain", "POST", MAPS, text(lambda: config_map("h", finalizers=["x"] * 200_000))),
    Nasty("applied anew", "PATCH", f"{MAPS}/b", text(lambda: config_map("b", {"k": ""})), APPLY, "fieldManager=x"),
    Nasty("env", "POST", PODS, text(lambda: pod("env", env=ENV))),
    Nasty("args", "POST", PODS, text(lambda: pod("args", args=["x"] * 300_000))),
    Nasty("env of a job", "POST", JOBS, text(lambda: job("env", env=ENV))),
    Nasty("merge patch", "PATCH", f"{MAPS}/kept", text(lambda: {"data": quoted(90_000)}), MERGE),
    Nasty(
        "strategic patch of env",
        "PATCH",
        f"{PODS}/some",
        text(lambda: {"spec": {"containers": [{"name": "c", "env": ENV}]}}),
        STRATEGIC,
    ),
    Nasty(
        "strategic patch with its order",
        "PATCH",
        f"{PODS}/some",
        text(
            lambda: {
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "env": ENV,
                            "$setElementOrder/env": [{"name": one["name"]} for one in reversed(ENV)],
                        }
                    ]
                }
            }
        ),
        STRATEGIC,
    ),
    Nasty(
        "strategic patch that deletes",
        "PATCH",
        f"{PODS}/some",
        text(
            lambda: {
                "spec": {
                    "containers": [{"name": "c", "env": [{"name": one["name"], "$patch": "delete"} for one in ENV]}]
                }
            }
        ),
        STRATEGIC,
    ),
    Nasty(
        "operations on a large object",
        "PATCH",
        f"{JOBS}/large",
        text(lambda: [{"op": "add", "path": "/metadata/labels/l", "value": str(n)} for n in range(1000)]),
        JSON_PATCH,
    ),
    Nasty(
        "copies in a large object",
        "PATCH",
        f"{JOBS}/large",
        text(lambda: [{"op": "copy", "from": "/spec", "path": f"/metadata/a{n}"} for n in range(1000)]),
        JSON_PATCH,
    ),
    Nasty(
        "copies that double",
        "PATCH",
        f"{MAPS}/kept",
        text(lambda: [{"op": "copy", "from": "/data", "path": f"/data/a{n}"} for n in range(19)]),
        JSON_PATCH,
    ),
    Nasty(
        "copies of lists that double",
        "PATCH",
        f"{MAPS}/kept",
        text(
            lambda: [
                {"op": "add", "path": "/a", "value": [[]] * 3},
                *({"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(12)),
            ]
        ),
        JSON_PATCH,
    ),
    Nasty(
        "copies of containers",
        "PATCH",
        f"{JOBS}/small",
        text(lambda: [{"op": "copy", "from": f"{REPLICAS}/Worker", "path": f"{REPLICAS}/w{n}"} for n in range(900)]),
        JSON_PATCH,
    ),
    Nasty(
        "copies in a scale",
        "PATCH",
        f"{JOBS}/small/scale",
        text(
            lambda: [
                {"op": "add", "path": "/a", "value": [[]] * 3},
                *({"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(13)),
            ]
        ),
        JSON_PATCH,
    ),
    Nasty(
        "moves in a large object",
        "PATCH",
        f"{JOBS}/large",
        text(lambda: [{"op": "move", "from": "/spec", "path": "/spec"}] * 1000),
        JSON_PATCH,
    ),
    Nasty(
        "tests of a large object",
        "PATCH",
        f"{JOBS}/large",
        text(lambda: [{"op": "test", "path": "", "value": {"a": 1}}] * 1000),
        JSON_PATCH,
    ),
    Nasty(
        "a small patch of a large object",
        "PATCH",
        f"{JOBS}/large",
        text(lambda: {"metadata": {"labels": {"l": "v"}}}),
        MERGE,
    ),
    Nasty("a large object as a table", "GET", f"{JOBS}/large", accept=TABLE),
    Nasty("a large object as YAML", "GET", f"{JOBS}/large", accept=YAML),
    Nasty("rules", "POST", ROLES, text(lambda: role(4000))),
    Nasty("a quota tree", "POST", TREES, text(lambda: tree(9000))),
    Nasty("a policy", "POST", POLICIES, text(lambda: policy(12_000))),
    Nasty("a definition", "POST", CRDS, text(lambda: crd(15_000))),
    Nasty("a review", "POST", REVIEWS, text(lambda: {"spec": {"resourceAttributes": {"verb": "x" * 2_900_000}}})),
    Nasty("a job over REST", "POST", "/fleet/v1/jobs", text(lambda: job("rest", env=ENV))),
    Nasty(
        "a question over REST",
        "POST",
        "/fleet/v1/what-if",
        text(lambda: {"edits": [{"DrainMember": {"member": "m"}}] * 50_000}),
    ),
    Nasty("options of a DELETE", "DELETE", f"{MAPS}/none", text(lambda: {"a": [1] * 30_000})),
    Nasty("1,000 parameters", "GET", MAPS, query="&".join(f"p{n}=" for n in range(1000))),
    Nasty("requirements", "GET", MAPS, query="labelSelector=" + quote(",".join(f"!k{n}" for n in range(100)))),
    Nasty("values", "GET", MAPS, query="labelSelector=" + quote(f"a notin ({','.join(map(str, range(1900)))})")),
    Nasty("fields", "GET", MAPS, query="fieldSelector=" + quote(",".join(f"metadata.name!=a{n}" for n in range(100)))),
    Nasty("a list", "GET", MAPS),
    Nasty("a list as a table", "GET", MAPS, accept=TABLE),
    Nasty("a list as YAML", "GET", MAPS, query="limit=500", accept=YAML),
    Nasty("a list of metadata", "GET", MAPS, accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    Nasty("a list of pods as a table", "GET", PODS, accept=TABLE, query="includeObject=Object"),
    Nasty("an alias of a group", "GET", "/apis/policy.karmada.io/v1alpha1/propagationpolicies"),
    Nasty("Accept", "GET", f"{MAPS}/kept", accept=",".join(["a/b;q=0.1;as=x"] * 4000)),
    Nasty("a header many times", "GET", f"{MAPS}/kept", headers=tuple((b"x", b"y" * 60) for _ in range(999))),
    Nasty(
        "groups to act as",
        "GET",
        f"{MAPS}/kept",
        headers=((b"impersonate-user", b"u"), *((b"impersonate-group", b"g%d" % n) for n in range(900))),
    ),
    Nasty("jobs over REST", "GET", "/fleet/v1/jobs", query="limit=1000"),
    Nasty("OpenAPI", "GET", "/openapi/v2"),
    Nasty("OpenAPI of a group", "GET", "/openapi/v3/api/v1"),
]
