"""What all job kinds have in common: pod templates. Requests are computed in requests.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleet.kinds.interpreter import Body, Dependency, Template
from fleet.kinds.requests import pod_requests
from fleet.marks import without_hub_keys
from fleet.model.unit import Component, NodeClaim, Requirement, Toleration
from fleet.wellknown import LABEL_COMPONENT, QUEUING

HOSTNAME = "kubernetes.io/hostname"
_NOWHERE = (Requirement("", "In"),)  # an empty term of a node affinity matches no node
_DROPPED_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration",)
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_SECRET_FIELDS = ("secretRef", "nodePublishSecretRef")


def component(template: Template) -> Component:
    spec = template.template.get("spec") or {}
    return Component(template.name, template.replicas, pod_requests(spec), node_claim(spec))


def node_claim(spec: Mapping[str, Any]) -> NodeClaim:
    """Which nodes a pod with this spec may use. Preferences are left to the member."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return NodeClaim(
        node_selector=tuple(sorted((str(k), str(v)) for k, v in (spec.get("nodeSelector") or {}).items())),
        tolerations=tuple(_toleration(t) for t in spec.get("tolerations") or ()),
        affinity=tuple(_term(term) for term in required.get("nodeSelectorTerms") or ()),
    )


def _toleration(text: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=text.get("key") or "",
        operator=text.get("operator") or "Equal",
        value=text.get("value") or "",
        effect=text.get("effect") or "",
    )


def _term(term: Mapping[str, Any]) -> tuple[Requirement, ...]:
    found = [_requirement(e, e.get("key", "")) for e in term.get("matchExpressions") or ()]
    # The only field that Kubernetes allows is metadata.name; nodes carry their name as a label, too.
    found += [_requirement(e, HOSTNAME) for e in term.get("matchFields") or ()]
    return tuple(found) or _NOWHERE


def _requirement(expression: Mapping[str, Any], key: str) -> Requirement:
    return Requirement(key, expression.get("operator", "In"), tuple(expression.get("values") or ()))


def dependencies(namespace: str, spec: Mapping[str, Any]) -> Iterator[Dependency]:
    """ConfigMaps, Secrets, claims and the service account that a pod spec names, optional ones too: they travel when
    they exist. The account "default" is every namespace's own."""

    def named(kind: str, name: object) -> Iterator[Dependency]:
        if isinstance(name, str) and name:
            yield kind, namespace, name

    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account != "default":
        yield from named("ServiceAccount", account)
    for secret in spec.get("imagePullSecrets") or ():
        yield from named("Secret", secret.get("name"))
    for volume in spec.get("volumes") or ():
        yield from named("PersistentVolumeClaim", (volume.get("persistentVolumeClaim") or {}).get("claimName"))
        yield from named("Secret", (volume.get("secret") or {}).get("secretName"))
        yield from named("ConfigMap", (volume.get("configMap") or {}).get("name"))
        yield from named("Secret", (volume.get("azureFile") or {}).get("secretName"))
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from named("Secret", (source.get("secret") or {}).get("name"))
            yield from named("ConfigMap", (source.get("configMap") or {}).get("name"))
        for driver in volume.values():  # cephfs, rbd, iscsi, csi and more keep their secret in the same place
            if isinstance(driver, dict):
                for field in _SECRET_FIELDS:
                    yield from named("Secret", (driver.get(field) or {}).get("name"))
    for group in _CONTAINERS:
        for container in spec.get(group) or ():
            for source in container.get("envFrom") or ():
                yield from named("ConfigMap", (source.get("configMapRef") or {}).get("name"))
                yield from named("Secret", (source.get("secretRef") or {}).get("name"))
            for variable in container.get("env") or ():
                source = variable.get("valueFrom") or {}
                yield from named("ConfigMap", (source.get("configMapKeyRef") or {}).get("name"))
                yield from named("Secret", (source.get("secretKeyRef") or {}).get("name"))


def priority_class(templates: Iterable[Template]) -> str:
    """The first that a template names: the pods of a gang have one priority."""
    for template in templates:
        name = (template.template.get("spec") or {}).get("priorityClassName")
        if name:
            return str(name)
    return ""


def stamped_metadata(
    metadata: Mapping[str, Any] | None, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Body:
    """Metadata for a member: name, namespace, finalizer-free, with these labels and annotations put on top, and nothing
    of what the hub means by its own keys."""
    metadata = metadata or {}
    new: Body = {field: metadata[field] for field in ("name", "namespace") if metadata.get(field)}
    new["labels"] = {**without_hub_keys(metadata.get("labels") or {}), **labels}
    kept = without_hub_keys(metadata.get("annotations") or {})
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
    own = [c for c in (hub or {}).get("conditions") or () if c.get("type") == QUEUING]
    theirs = [c for c in (member or {}).get("conditions") or () if c.get("type") != QUEUING]
    merged = dict(member or {})
    if own or theirs or "conditions" in merged:
        merged["conditions"] = own + theirs
    return merged
