"""CustomResourceDefinitions: how a user, and Fleet itself, teaches the hub a kind.

A CRD object becomes a `Kind`, and a kind that Fleet brings becomes a CRD object, so that all custom kinds look alike to
clients. A CRD of several versions becomes a kind for each of them, which know each other (`Family`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from api.engine.crdparts import (
    column_flaws,
    invalid,
    name_flaws,
    required,
    scale_flaws,
    selectable_flaws,
    too_many,
    unsupported,
)
from api.engine.crdschema import costs, flaws
from api.engine.kind import Column, Family, Kind, Scale
from api.engine.schemas import PRESERVE, Definitions, collapse, whole_object
from api.engine.status import CAUSES_MAX, Cause
from api.engine.validate import value_text
from fleet.values.names import dns1035_problems
from fleet.values.untyped import at, mapping, rows, text, texts
from fleet.values.wellknown import HANDLING_FAILED

GROUP = "apiextensions.k8s.io"
RESOURCE = "customresourcedefinitions"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"

Body = dict[str, Any]

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STRATEGIES = ("None", "Webhook")
_CONDITIONS = ("NamesAccepted", "Established", "Terminating", HANDLING_FAILED)  # which the hub keeps
_TOP = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}


def default(body: Body) -> None:
    """Fill in the defaults of a kube-apiserver, in place."""
    spec = mapping(body.get("spec"))
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    service = at(spec, "conversion", "webhook", "clientConfig", "service")
    if isinstance(service, dict):
        service.setdefault("port", 443)
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]


def validate(body: Body, *, stored: bool = False) -> list[Cause]:
    """The flaws of a CRD beyond its schema; empty when it can be served. Of one that is `stored` only what keeps it
    from being served: a pattern or a rule that cannot be run checks nothing then."""
    spec = mapping(body.get("spec"))
    group, plural = text(spec.get("group")), text(mapping(spec.get("names")).get("plural"))
    causes = list(name_flaws(spec, stored))
    name = at(body, "metadata", "name")
    if name != f"{plural}.{group}":
        causes.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if spec.get("preserveUnknownFields"):
        causes.append(invalid("spec.preserveUnknownFields", True, f"must be false; use {PRESERVE} in the schema"))
    strategy = "None" if spec.get("conversion") is None else text(at(spec, "conversion", "strategy"))
    if not strategy:
        causes.append(required("spec.conversion.strategy"))
    elif strategy not in _STRATEGIES:
        causes.append(unsupported("spec.conversion.strategy", strategy, _STRATEGIES))
    causes += too_many("spec.versions", spec.get("versions"))
    causes += _versions(rows(spec.get("versions")), stored)
    return causes


def _versions(versions: list[Body], stored: bool) -> Iterator[Cause]:
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield invalid("spec.versions", len(versions), "must have exactly one version marked as storage version")
    names: set[str] = set()
    alike = {part for part in _TOP if all(v.get(part) == versions[0].get(part) for v in versions)}
    for index, version in enumerate(versions):
        where, name = f"spec.versions[{index}]", text(version.get("name"))
        if name in names:
            yield Cause(f"{where}.name", f"Duplicate value: {value_text(name)}", "FieldValueDuplicate")
        names.add(name)
        if problems := dns1035_problems(name):
            yield invalid(f"{where}.name", name, ",".join(problems))
            if index == 0:  # a kube-apiserver keeps the first name in a field of its own, too
                yield invalid("spec.version", name, ",".join(problems))
        # What all versions share a kube-apiserver reads, and refuses, once.
        places = {part: _TOP[part] if part in alike else f"{where}.{part}" for part in _TOP}
        asked = {part: place for part, place in places.items() if index == 0 or part not in alike}
        if not isinstance(at(version, "schema", "openAPIV3Schema"), dict):
            asked["schema"] = f"{where}.schema"
        yield from islice(_version_causes(asked, version, stored), CAUSES_MAX)


def _version_causes(places: Mapping[str, str], version: Body, stored: bool) -> Iterator[Cause]:
    """`places`: the parts of the version to look at, and where each stands in a refusal."""
    if "schema" in places:
        yield from _schema_causes(f"{places['schema']}.openAPIV3Schema", version, stored)
    if "additionalPrinterColumns" in places:
        yield from column_flaws(places["additionalPrinterColumns"], version.get("additionalPrinterColumns"), stored)
    if "selectableFields" in places:
        schema = mapping(at(version, "schema", "openAPIV3Schema"))
        yield from selectable_flaws(places["selectableFields"], version.get("selectableFields"), schema, stored)
    scale = at(version, "subresources", "scale")
    if isinstance(scale, dict) and "subresources" in places:
        yield from scale_flaws(f"{places['subresources']}.scale", scale)


def _schema_causes(place: str, version: Body, stored: bool) -> Iterator[Cause]:
    schema = at(version, "schema", "openAPIV3Schema")
    if not isinstance(schema, dict):
        yield Cause(place, "Required value: schemas are required", "FieldValueRequired")
        return
    if schema.get("type") != "object":
        yield invalid(f"{place}.type", schema.get("type"), "must be object at the root")
    found = list(islice(flaws(place, schema), CAUSES_MAX))
    yield from found if found or stored else islice(costs(place, schema), CAUSES_MAX)


def preference(version: str) -> tuple[int, int, int, str]:
    """The order in which clients prefer versions: the stable ones first, of each the newest, others by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 0, 0, 0, version
    stability = {None: 3, "beta": 2, "alpha": 1}[match[2]]
    return -stability, -int(match[1]), -int(match[3] or 0), ""


def kind_of(body: Body, types: Definitions, old_kind: Kind | None = None) -> Kind | None:
    """The kind that a valid CRD describes, in its storage version; None when it serves no version.

    `old_kind`: the kind that it replaces. Properties that a CRD cannot express (other groups for the same objects)
    stay.
    """
    spec = body["spec"]
    versions = rows(spec["versions"])
    served = tuple(sorted((v["name"] for v in versions if v.get("served")), key=preference))
    if not served:
        return None
    aliases = old_kind.aliases if old_kind is not None else ()
    kinds = [replace(_kind(spec, v, types), aliases=aliases, versions=served) for v in versions]
    if len(kinds) == 1:
        return kinds[0]
    storage = next(kind.api_version for kind, v in zip(kinds, versions, strict=True) if v.get("storage"))
    webhook = at(spec, "conversion", "webhook") if at(spec, "conversion", "strategy") == "Webhook" else None
    return family_of(kinds, Family(storage, {}, webhook))


def dated(kind: Kind, since: int) -> Kind:
    """The kind in force from this revision on; see `Kind.since`."""
    if kind.family is None:
        return replace(kind, since=since)
    members = [replace(member, since=since) for member in kind.family.kinds.values()]
    return family_of(members, kind.family)


def family_of(kinds: Iterable[Kind], like: Family) -> Kind:
    """The storage version of the kinds, all of which know each other, with conversions as in `like`."""
    members: dict[str, Kind] = {}
    family = replace(like, kinds=members)
    members |= {kind.api_version: replace(kind, family=family) for kind in kinds}
    return members[family.storage]


def _kind(spec: Body, version: Body, types: Definitions) -> Kind:
    names, subresources = spec["names"], version.get("subresources") or {}
    scale = subresources.get("scale")
    return Kind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        resource=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        list_kind=names.get("listKind") or names["kind"] + "List",
        short_names=texts(names.get("shortNames")),
        categories=texts(names.get("categories")),
        schema=whole_object((version.get("schema") or {}).get("openAPIV3Schema"), types),
        columns=tuple(_column(column) for column in rows(version.get("additionalPrinterColumns"))),
        status="status" in subresources,
        scale=None
        if scale is None
        else Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")),
        selectable=tuple(f["jsonPath"].removeprefix(".") for f in rows(version.get("selectableFields"))),
    )


def _column(text: Mapping[str, Any]) -> Column:
    return Column(
        text["name"],
        text["type"],
        text["jsonPath"],
        text.get("priority") or 0,
        text.get("format") or "",
        text.get("description") or "",
    )


def crd_of(kind: Kind) -> Body:
    """The CRD object of a kind that Fleet brings. Types that come from a package are named, not spelled out."""
    names: Body = {"plural": kind.resource, "singular": kind.singular, "kind": kind.kind, "listKind": kind.list_kind}
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    schema = collapse(kind.schema or {"type": "object", PRESERVE: True})
    schema["properties"]["metadata"] = {"type": "object"}
    version: Body = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if kind.columns:
        version["additionalPrinterColumns"] = [_column_text(column) for column in kind.columns]
    subresources: Body = {"status": {}} if kind.status else {}
    if kind.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas_path,
            "statusReplicasPath": kind.scale.status_replicas_path,
        }
        if kind.scale.label_selector_path:
            subresources["scale"]["labelSelectorPath"] = kind.scale.label_selector_path
    if subresources:
        version["subresources"] = subresources
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": f".{path}"} for path in kind.selectable]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.group_resource},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
            "conversion": {"strategy": "None"},
        },
    }


def _column_text(column: Column) -> Body:
    text: Body = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.priority:
        text["priority"] = column.priority
    return text


def status_of(body: Body, conflict: str = "") -> Body:
    """The status that a CRD should have. `conflict`: why its names cannot be used, or "".

    Times are those of the object itself, so that every process that looks writes the same."""
    spec, created = body["spec"], body["metadata"].get("creationTimestamp")
    old = {c.get("type"): c for c in rows(at(body, "status", "conditions"))}

    def condition(type_: str, status: str, reason: str, message: str) -> Body:
        before = old.get(type_, {})
        since = before.get("lastTransitionTime") if before.get("status") == status else created
        return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}

    if conflict:
        conditions = [
            condition("NamesAccepted", "False", "NameConflict", conflict),
            condition("Established", "False", "NotAccepted", "not all names are accepted"),
        ]
    else:
        conditions = [
            condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
        ]
    deleted = body["metadata"].get("deletionTimestamp")
    if deleted:
        reason, message = "InstanceDeletionInProgress", "its objects are being deleted"
        conditions.append({**condition("Terminating", "True", reason, message), "lastTransitionTime": deleted})
    conditions += [entry for type_, entry in old.items() if type_ not in _CONDITIONS]  # of others, who keep them
    versions = rows(spec["versions"])
    storage = [v["name"] for v in versions if v.get("storage")]
    named = {v["name"] for v in versions}  # all of them, but where a definition of the hub's own was replaced
    stored = [name for name in texts(at(body, "status", "storedVersions")) if name in named]
    return {
        "conditions": conditions,
        "acceptedNames": spec["names"] if not conflict else {"plural": "", "kind": ""},
        "storedVersions": [*stored, *(v for v in storage if v not in stored)],
    }
