"""The common part of all job kinds: pod templates. Requests are computed in requests.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.core.model.unit import Component, NodeClaim, Requirement, Toleration
from fleet.kinds.interpreter import Body, Dependency, Template
from fleet.kinds.requests import pod_requests
from fleet.values.untyped import at, mapping, rows, text, texts
from fleet.wellknown import LABEL_COMPONENT, QUEUING
from fleet.wellknown.marks import without_hub_keys

_NOWHERE = (Requirement("", "In"),)  # an empty term of a node affinity matches no node
_DROPPED_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_SECRET_FIELDS = ("secretRef", "nodePublishSecretRef")


def component(template: Template) -> Component:
    spec = mapping(template.template.get("spec"))
    return Component(template.name, template.replicas, pod_requests(spec), node_claim(spec))


def node_claim(spec: Mapping[str, Any]) -> NodeClaim:
    """Which nodes a pod with this spec may use. Preferences are left to the member."""
    required = at(spec.get("affinity"), "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return NodeClaim(
        node_selector=tuple(sorted((str(k), str(v)) for k, v in mapping(spec.get("nodeSelector")).items())),
        tolerations=tuple(_toleration(t) for t in rows(spec.get("tolerations"))),
        affinity=tuple(_term(term) for term in rows(at(required, "nodeSelectorTerms"))),
    )


def _toleration(given: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=text(given.get("key")),
        operator=text(given.get("operator")) or "Equal",
        value=text(given.get("value")),
        effect=text(given.get("effect")),
    )


def _term(term: Mapping[str, Any]) -> tuple[Requirement, ...]:
    # The only field that Kubernetes allows is metadata.name, which inventories show among a node's labels.
    found = [_requirement(e) for field in ("matchExpressions", "matchFields") for e in rows(term.get(field))]
    return tuple(found) or _NOWHERE


def _requirement(expression: Mapping[str, Any]) -> Requirement:
    operator = text(expression.get("operator")) or "In"
    return Requirement(text(expression.get("key")), operator, texts(expression.get("values")))


def dependencies(namespace: str, spec: Mapping[str, Any], *, optional: bool = True) -> Iterator[Dependency]:
    """ConfigMaps, Secrets, claims, the service account and the headless Service that a pod spec names. `optional`: also
    those that the pods start without, which travel when they exist. The account "default" is every namespace's own."""

    def named(kind: str, name: object) -> Iterator[Dependency]:
        if isinstance(name, str) and name:
            yield kind, namespace, name

    def maybe(kind: str, source: object, field: str = "name") -> Iterator[Dependency]:
        if optional or at(source, "optional") is not True:
            yield from named(kind, at(source, field))

    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account != "default":
        yield from named("ServiceAccount", account)
    if optional:
        yield from named("Service", spec.get("subdomain"))
    for secret in rows(spec.get("imagePullSecrets")):
        yield from named("Secret", secret.get("name"))
    for volume in rows(spec.get("volumes")):
        yield from named("PersistentVolumeClaim", at(volume, "persistentVolumeClaim", "claimName"))
        yield from maybe("Secret", volume.get("secret"), "secretName")
        yield from maybe("ConfigMap", volume.get("configMap"))
        yield from named("Secret", at(volume, "azureFile", "secretName"))
        for source in rows(at(volume, "projected", "sources")):
            yield from maybe("Secret", source.get("secret"))
            yield from maybe("ConfigMap", source.get("configMap"))
        for driver in volume.values():  # cephfs, rbd, iscsi, csi and more keep their secret in the same place
            for field in _SECRET_FIELDS:
                yield from named("Secret", at(driver, field, "name"))
    for group in _CONTAINERS:
        for container in rows(spec.get(group)):
            for source in rows(container.get("envFrom")):
                yield from maybe("ConfigMap", source.get("configMapRef"))
                yield from maybe("Secret", source.get("secretRef"))
            for variable in rows(container.get("env")):
                yield from maybe("ConfigMap", at(variable, "valueFrom", "configMapKeyRef"))
                yield from maybe("Secret", at(variable, "valueFrom", "secretKeyRef"))


def priority_class(templates: Iterable[Template]) -> str:
    """The first that a template names: the pods of a gang have one priority."""
    for template in templates:
        name = text(at(template.template.get("spec"), "priorityClassName"))
        if name:
            return name
    return ""


def stamped_metadata(
    metadata: Mapping[str, Any] | None, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Body:
    """Metadata for a member: name, namespace, finalizer-free, with these labels and annotations put on top, and nothing
    of what the hub means by its own keys."""
    metadata = mapping(metadata)
    new: Body = {field: metadata[field] for field in ("name", "namespace") if metadata.get(field)}
    new["labels"] = {**without_hub_keys(mapping(metadata.get("labels"))), **labels}
    kept = without_hub_keys(mapping(metadata.get("annotations")))
    kept = {k: v for k, v in kept.items() if k not in _DROPPED_ANNOTATIONS}
    if kept or annotations:
        new["annotations"] = {**kept, **(annotations or {})}
    return new


def stamped_template(template: Body, component: str, labels: Mapping[str, str], more: Mapping[str, str] | None) -> Body:
    metadata = stamped_metadata(template.get("metadata"), {**labels, **(more or {}), LABEL_COMPONENT: component})
    return {**template, "metadata": metadata}


def condition(type_: str, status: str, reason: str, message: str, at: str) -> Body:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def merged_status(hub: Body | None, member: Body | None) -> Body:
    """`member` with the hub's own Queuing condition kept, first."""
    own = [c for c in rows(mapping(hub).get("conditions")) if c.get("type") == QUEUING]
    theirs = [c for c in rows(mapping(member).get("conditions")) if c.get("type") != QUEUING]
    merged = dict(mapping(member))
    if own or theirs or "conditions" in merged:
        merged["conditions"] = own + theirs
    return merged
