"""Webhook configurations to write to two servers: a whole one, and others that are wrong in one thing each."""

from __future__ import annotations

import copy
from typing import Any

Body = dict[str, Any]

RULE: Body = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK: Body = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com/x"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def _service(**fields: Any) -> Body:
    return {"clientConfig": {"service": {"name": "s", "namespace": "n", **fields}}}


def _rule(**fields: Any) -> Body:
    return {"rules": [{**RULE, **fields}]}


def _condition(*items: tuple[str, str]) -> Body:
    return {"matchConditions": [{"name": name, "expression": text} for name, text in items]}


# what -> fields of the webhook, None to leave one out
EDITS: dict[str, Body] = {
    "whole": {},
    "whole with a service": _service(),
    "a short name": {"name": "short"},
    "a name of two parts": {"name": "example.com"},
    "an empty name": {"name": ""},
    "a name in capitals": {"name": "A.example.com"},
    "no side effects": {"sideEffects": None},
    "some side effects": {"sideEffects": "Some"},
    "no versions": {"admissionReviewVersions": []},
    "an unknown version": {"admissionReviewVersions": ["v7"]},
    "a version twice": {"admissionReviewVersions": ["v1", "v1"]},
    "a wrong version": {"admissionReviewVersions": ["v1", "1v"]},
    "no time": {"timeoutSeconds": 0},
    "much time": {"timeoutSeconds": 31},
    "no operations": _rule(operations=[]),
    "every operation and more": _rule(operations=["*", "CREATE"]),
    "an unknown operation": _rule(operations=["LOOK"]),
    "no groups": _rule(apiGroups=[]),
    "every group and more": _rule(apiGroups=["*", "apps"]),
    "no api versions": _rule(apiVersions=[]),
    "every version and more": _rule(apiVersions=["v1", "*"]),
    "an empty version": _rule(apiVersions=[""]),
    "no resources": _rule(resources=[]),
    "an empty resource": _rule(resources=[""]),
    "every resource and more": _rule(resources=["*", "pods"]),
    "every subresource and more": _rule(resources=["*/*", "pods"]),
    "a subresource twice": _rule(resources=["pods/*", "pods/status"]),
    "status of all and of one": _rule(resources=["*/status", "pods/status"]),
    "an unknown scope": _rule(scope="World"),
    "an unknown failure policy": {"failurePolicy": "Perhaps"},
    "an unknown match policy": {"matchPolicy": "Somehow"},
    "a selector with a wrong operator": {
        "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Is", "values": ["b"]}]}
    },
    "a selector with a wrong label": {"namespaceSelector": {"matchLabels": {"not a key": "b"}}},
    "no way to it": {"clientConfig": {}},
    "two ways to it": {"clientConfig": {"url": "https://example.com", "service": {"name": "s", "namespace": "n"}}},
    "plain http": {"clientConfig": {"url": "http://example.com"}},
    "a user in the address": {"clientConfig": {"url": "https://me@example.com"}},
    "a query in the address": {"clientConfig": {"url": "https://example.com/?a=b"}},
    "a fragment in the address": {"clientConfig": {"url": "https://example.com/#a"}},
    "no host": {"clientConfig": {"url": "https:///x"}},
    "a service without a name": _service(name=""),
    "a service without a namespace": _service(namespace=""),
    "a service with a wrong port": _service(port=70000),
    "a service with a relative path": _service(path="x"),
    "a service with an empty step": _service(path="/a//b"),
    "a service with a wrong step": _service(path="/a_b"),
    "a condition": _condition(("c", "object.metadata.name == 'x'")),
    "a condition without a name": _condition(("", "true")),
    "a condition with a wrong name": _condition(("not a name", "true")),
    "a condition without an expression": _condition(("c", " ")),
    "two conditions of one name": _condition(("c", "true"), ("c", "false")),
    "a reinvocation policy that is not there": {"reinvocationPolicy": "Sometimes"},
}


def edited(kind: str, number: int, edit: Body) -> Body:
    hook = {key: value for key, value in {**copy.deepcopy(HOOK), **edit}.items() if value is not None}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": f"edit-{number}"},
        "webhooks": [hook],
    }
