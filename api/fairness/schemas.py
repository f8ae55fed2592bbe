"""FlowSchemas and PriorityLevelConfigurations as they are stored, read for use: the class of each request.

An object that cannot be read, and a schema whose level does not exist, classify nothing. The mandatory objects are
always there, stored or not, so that each request finds its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from api.fairness.defaults import LEVELS, MANDATORY, SCHEMAS
from api.fairness.scheduler import Limits
from api.objects.writing import User
from api.wire.rights import Attributes
from fleet.values.ports import Body

log = structlog.get_logger(__name__)
ALL = "*"
ACCOUNTS = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Schema:
    """One FlowSchema. `by`: ByUser, ByNamespace, or "" where all its requests are one flow."""

    name: str
    uid: str
    level: str
    precedence: int
    by: str
    rules: Sequence[Mapping[str, Any]]

    def matches(self, user: User, attributes: Attributes) -> bool:
        return any(
            _any_subject(rule.get("subjects") or (), user) and _any_request(rule, attributes) for rule in self.rules
        )

    def flow(self, user: User, attributes: Attributes) -> str:
        """The name of the flow that a request belongs to."""
        which = user.name if self.by == "ByUser" else attributes.namespace if self.by == "ByNamespace" else ""
        return f"{self.name}/{which}"


def _any_subject(subjects: Iterable[Mapping[str, Any]], user: User) -> bool:
    return any(_is_subject(subject, user) for subject in subjects)


def _is_subject(subject: Mapping[str, Any], user: User) -> bool:
    match subject.get("kind"):
        case "User":
            return subject["user"]["name"] in (ALL, user.name)
        case "Group":
            return subject["group"]["name"] == ALL or subject["group"]["name"] in user.groups
        case "ServiceAccount":
            account = subject["serviceAccount"]
            prefix = f"{ACCOUNTS}{account['namespace']}:"
            return user.name.startswith(prefix) if account["name"] == ALL else user.name == prefix + account["name"]
    return False


def _any_request(rule: Mapping[str, Any], attributes: Attributes) -> bool:
    if attributes.path is not None:
        return any(_is_path(one, attributes.verb, attributes.path) for one in rule.get("nonResourceRules") or ())
    return any(_is_resource(one, attributes) for one in rule.get("resourceRules") or ())


def _is_path(rule: Mapping[str, Any], verb: str, path: str) -> bool:
    return _in(verb, rule["verbs"]) and any(
        url in (ALL, path) or path.startswith(url.removesuffix("*").rstrip("/") + "/")
        for url in rule["nonResourceURLs"]
    )


def _is_resource(rule: Mapping[str, Any], attributes: Attributes) -> bool:
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    if not (
        _in(attributes.verb, rule["verbs"])
        and _in(attributes.group, rule["apiGroups"])
        and _in(resource, rule["resources"])
    ):
        return False
    return (
        _in(attributes.namespace, rule.get("namespaces") or ())
        if attributes.namespace
        else bool(rule.get("clusterScope"))
    )


def _in(value: str, values: Sequence[str]) -> bool:
    return value in values or ALL in values


def read_levels(stored: Iterable[Body]) -> dict[str, tuple[str, Limits]]:
    """uid and limits by name."""
    levels = {name: ("", _limits(LEVELS[name])) for name in MANDATORY}
    for body in stored:
        name = body["metadata"]["name"]
        try:
            levels[name] = (body["metadata"].get("uid", ""), _limits(body["spec"]))
        except (KeyError, TypeError, AttributeError) as error:
            log.warning("a PriorityLevelConfiguration cannot be read", name=name, error=repr(error)[:200])
    return levels


def _limits(spec: Mapping[str, Any]) -> Limits:
    if spec["type"] == "Exempt":
        exempt = spec.get("exempt") or {}
        return Limits(exempt.get("nominalConcurrencyShares") or 0, True, exempt.get("lendablePercent") or 0)
    limited = spec["limited"]
    queuing = limited["limitResponse"].get("queuing") or {}
    return Limits(
        limited["nominalConcurrencyShares"],
        False,
        limited.get("lendablePercent") or 0,
        limited.get("borrowingLimitPercent"),
        queuing.get("queues", 0),
        queuing.get("handSize", 1),
        queuing.get("queueLengthLimit", 0),
    )


def read_schemas(stored: Iterable[Body], levels: Mapping[str, object]) -> tuple[Schema, ...]:
    """In the order in which they are asked: the first that matches is it. The last matches everything."""
    schemas = {name: _schema(name, "", SCHEMAS[name]) for name in MANDATORY}
    for body in stored:
        name = body["metadata"]["name"]
        try:
            schemas[name] = _schema(name, body["metadata"].get("uid", ""), body["spec"])
        except (KeyError, TypeError, AttributeError) as error:
            log.warning("a FlowSchema cannot be read", name=name, error=repr(error)[:200])
    found = sorted(
        (schema for schema in schemas.values() if schema.level in levels),
        key=lambda schema: (schema.precedence, schema.name),
    )
    catch_all = _schema("catch-all", schemas["catch-all"].uid, SCHEMAS["catch-all"])
    return (*found, catch_all)


def _schema(name: str, uid: str, spec: Mapping[str, Any]) -> Schema:
    return Schema(
        name,
        uid,
        spec["priorityLevelConfiguration"]["name"],
        spec["matchingPrecedence"],
        (spec.get("distinguisherMethod") or {}).get("type", ""),
        tuple(spec.get("rules") or ()),
    )
