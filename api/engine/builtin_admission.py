"""The defaults of the kinds of admissionregistration.k8s.io."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from api.engine.kind import Body

_GROUP = "admissionregistration.k8s.io"


def _fill(target: Any, defaults: dict[str, Any]) -> None:
    if target.__class__ is dict:
        for key, value in defaults.items():
            if target.get(key) is None:
                target[key] = {} if value == {} else value


def _each(body: Any, key: str) -> Iterable[Any]:
    found = body.get(key) if body.__class__ is dict else None
    return found if found.__class__ is list else ()


def _webhooks(mutating: bool) -> Callable[[Body], None]:
    defaults: dict[str, Any] = {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
        **({"reinvocationPolicy": "Never"} if mutating else {}),
    }

    def complete(body: Body) -> None:
        for hook in _each(body, "webhooks"):
            _fill(hook, defaults)
            for rule in _each(hook, "rules"):
                _fill(rule, {"scope": "*"})
            client = hook.get("clientConfig") if hook.__class__ is dict else None
            if client.__class__ is dict and client.get("service") is not None:
                _fill(client["service"], {"port": 443})

    return complete


def _match_resources(match: Any) -> None:
    if match.__class__ is dict:
        _fill(match, {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}})
        for key in ("resourceRules", "excludeResourceRules"):
            for rule in _each(match, key):
                _fill(rule, {"scope": "*"})


def _policy(body: Body) -> None:
    spec = body.get("spec")
    if spec.__class__ is dict:
        _fill(spec, {"failurePolicy": "Fail"})
        _match_resources(spec.get("matchConstraints"))


def _validating_policy(body: Body) -> None:
    _policy(body)
    if body.get("status") is None:
        body["status"] = {}  # its Go type leaves no status out


def _binding(body: Body) -> None:
    spec = body.get("spec")
    if spec.__class__ is dict:
        _match_resources(spec.get("matchResources"))


ADMISSION: dict[tuple[str, str], Callable[[Body], None]] = {
    (_GROUP, "validatingwebhookconfigurations"): _webhooks(mutating=False),
    (_GROUP, "mutatingwebhookconfigurations"): _webhooks(mutating=True),
    (_GROUP, "validatingadmissionpolicies"): _validating_policy,
    (_GROUP, "mutatingadmissionpolicies"): _policy,
    (_GROUP, "validatingadmissionpolicybindings"): _binding,
    (_GROUP, "mutatingadmissionpolicybindings"): _binding,
}
