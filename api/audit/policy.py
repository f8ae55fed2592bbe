"""An audit policy (audit.k8s.io/v1) as values, and the level that it gives to a request.

The first rule that matches decides, as in a kube-apiserver. A kube-apiserver reads a policy with unknown fields and
warns; here such a field is a fault, so that a rule with a typing error never logs less than its author meant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from fleet.values.names import subdomain_problems
from fleet.values.sections import BadConfiguration, Section, load

API_VERSION = "audit.k8s.io/v1"
KIND = "Policy"
RULES_MAX = 1000


class Level(IntEnum):
    """How much is logged; each level has all of the one before."""

    None_ = 0
    Metadata = 1
    Request = 2
    RequestResponse = 3

    @property
    def word(self) -> str:
        return self.name.rstrip("_")


class Stage(StrEnum):
    """A point in the life of a request at which an event is made."""

    RECEIVED = "RequestReceived"
    STARTED = "ResponseStarted"
    COMPLETE = "ResponseComplete"
    PANIC = "Panic"


LEVELS = {level.word: level for level in Level}
STAGES = tuple(stage.value for stage in Stage)


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """A request as policies see it. `path` is "" for one about a resource; `groups` None: its user is not known."""

    user: str
    groups: Collection[str] | None
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """An entry of a rule's `resources`. Empty lists mean everything."""

    group: str
    resources: tuple[str, ...]
    names: frozenset[str]

    def match(self, request: AuditedRequest) -> bool:
        if self.group not in (request.group, "*"):
            return False
        if not self.resources:
            return True
        if self.names and request.name not in self.names:
            return False
        whole = f"{request.resource}/{request.subresource}" if request.subresource else request.resource
        return any(
            wanted in (whole, "*", f"{request.resource}/*")
            or (request.subresource != "" and wanted == f"*/{request.subresource}")
            for wanted in self.resources
        )


@dataclass(frozen=True, slots=True)
class AuditRule:
    """One rule. Empty lists mean everything."""

    level: Level
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[Resources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    urls: tuple[str, ...] = ()
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False

    def match(self, request: AuditedRequest) -> bool:
        if self.users and (request.groups is None or request.user not in self.users):
            return False
        if self.groups and self.groups.isdisjoint(request.groups or ()):
            return False
        if self.verbs and request.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            if request.path or (self.namespaces and request.namespace not in self.namespaces):
                return False
            return not self.resources or any(entry.match(request) for entry in self.resources)
        return not self.urls or (request.path != "" and any(_covers(url, request.path) for url in self.urls))


def _covers(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """The rules in their order, with what holds for all of them folded in."""

    rules: tuple[AuditRule, ...]

    def rule(self, asked: AuditedRequest) -> AuditRule | None:
        """The rule that decides; None where no rule matches, and nothing is logged."""
        return next((rule for rule in self.rules if rule.match(asked)), None)


def parse(text: bytes) -> AuditPolicy:
    """The policy of a file. Raises BadConfiguration, with the fields that are wrong."""
    return read(load(text))


def read(document: Any) -> AuditPolicy:
    """As `parse`, of a document that is read already."""
    if not isinstance(document, dict):
        raise BadConfiguration(["(file): must be an object"])
    faults: list[str] = []
    top = Section(document, "", faults)
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        said = top.text(name, required=True)
        if said and said != wanted:
            top.fault(name, f"{said[:100]!r} is not {wanted}")
    top.ignore("metadata")
    stages, omits = _stages(top), top.flag("omitManagedFields")
    entries = top.sections("rules")
    top.end()
    if not entries:
        top.fault("rules", "Required value: a policy without rules logs nothing")
    if len(entries) > RULES_MAX:
        top.fault("rules", f"must have at most {RULES_MAX} items")
        entries = []
    rules = tuple(_rule(entry, stages, omits) for entry in entries)
    if faults:
        raise BadConfiguration(faults)
    return AuditPolicy(rules)


def _rule(entry: Section, stages: frozenset[str], omits: bool) -> AuditRule:
    level = entry.text("level", required=True)
    if level and level not in LEVELS:
        entry.fault("level", f"{level[:100]!r} is none of {', '.join(LEVELS)}")
    resources = tuple(_resources(part) for part in entry.sections("resources"))
    namespaces, urls = frozenset(entry.texts("namespaces")), entry.texts("nonResourceURLs")
    _check_urls(entry, urls)
    if urls and (resources or namespaces):
        entry.fault("nonResourceURLs", "rules cannot apply to both regular resources and non-resource URLs")
    users, groups = frozenset(entry.texts("users")), frozenset(entry.texts("userGroups"))
    verbs, omitted = frozenset(entry.texts("verbs")), stages | _stages(entry)
    if entry.has("omitManagedFields"):
        omits = entry.flag("omitManagedFields")
    entry.end()
    known = LEVELS.get(level, Level.None_)
    return AuditRule(known, users, groups, verbs, resources, namespaces, urls, omitted, omits)


def _stages(section: Section) -> frozenset[str]:
    stages = section.texts("omitStages")
    for number, stage in enumerate(stages):
        if stage not in STAGES:
            section.fault(f"omitStages[{number}]", f"{stage[:100]!r} is none of {', '.join(STAGES)}")
    return frozenset(stages)


def _check_urls(entry: Section, urls: Sequence[str]) -> None:
    for number, url in enumerate(urls):
        if url == "*":
            continue
        if not url.startswith("/"):
            entry.fault(f"nonResourceURLs[{number}]", f"{url[:100]!r} does not begin with /")
        if "*" in url[:-1]:
            entry.fault(f"nonResourceURLs[{number}]", f"{url[:100]!r} has a * that is not its last character")


def _resources(part: Section) -> Resources:
    group, resources, names = part.text("group"), part.texts("resources"), part.texts("resourceNames")
    part.end()
    if group not in ("", "*") and subdomain_problems(group):
        part.fault("group", f"{group[:100]!r} is no API group without its version")
    if names and not resources:
        part.fault("resourceNames", "using resourceNames requires at least one resource")
    return Resources(group, resources, frozenset(names))
