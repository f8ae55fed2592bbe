"""The manifests that go into a member for a binding: the object itself and the dependencies of its pods, stamped as
ours. Pure."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence

import orjson

from fleet.bindings import binding as b
from fleet.bindings import preserved
from fleet.bindings.components import components_of
from fleet.bindings.matching import ClusterFields
from fleet.bindings.rules import chosen_domain, rules_of
from fleet.controllers.dispatch import classes
from fleet.controllers.dispatch.additions import off_nodes, with_environment
from fleet.controllers.dispatch.domainpins import NO_PINS, DomainPins
from fleet.controllers.dispatch.jobsize import fitted
from fleet.controllers.dispatch.outgoing import checked
from fleet.controllers.dispatch.overrides import blaming, overridden
from fleet.controllers.fields.rooms import Driver, gang_name
from fleet.kinds import interpreter_of
from fleet.kinds.gangs import at_once, group_of, marked
from fleet.kinds.gates import gated
from fleet.kinds.interpreter import Dependency
from fleet.kinds.pins import pinned
from fleet.values.ports import Body, Key
from fleet.values.untyped import mapping
from fleet.wellknown import (
    ANNOTATION_AVOIDED,
    ANNOTATION_GANG,
    ANNOTATION_HASH,
    ANNOTATION_JOB,
    ANNOTATION_ROOM,
    ANNOTATION_USERS,
    ATTEMPT,
    LABEL_BINDING,
    LABEL_HUB,
)
from fleet.wellknown.marks import without_hub_keys

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DEPENDENCIES = {  # kind: group and resource
    "ConfigMap": ("", "configmaps"),
    "Secret": ("", "secrets"),
    "PersistentVolumeClaim": ("", "persistentvolumeclaims"),
    "ServiceAccount": ("", "serviceaccounts"),
    "Service": ("", "services"),
    classes.KIND: classes.RESOURCE,
}
# The dependencies that a member may well have of its own, so that they are not missed when the hub does not have them.
OFTEN_LOCAL = ("PersistentVolumeClaim", "ServiceAccount", "Service", classes.KIND)
VOLUME_CLAIM = "PersistentVolumeClaim"
# Of a Service that travels as a dependency: nothing that opens a port or draws traffic outside of its pods.
_OF_HEADLESS = ("clusterIP", "selector", "ports", "publishNotReadyAddresses")
_OF_ONE_CLUSTER = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")  # annotations


def key_of(dependency: Dependency) -> Key:
    kind, namespace, name = dependency
    return Key(*DEPENDENCIES[kind], namespace, name)


def marks(hub_id: str, binding: Body) -> dict[str, str]:
    """The labels of everything that a binding puts into a member."""
    return {LABEL_HUB: hub_id, LABEL_BINDING: binding["metadata"]["uid"], ATTEMPT: str(b.attempt(binding))}


def manifest(
    source: Body,
    binding: Body,
    hub_id: str,
    cluster: ClusterFields,
    policies: Sequence[Body],
    avoided: Sequence[str] = (),
    live_copy: Body | None = None,
    pins: DomainPins = NO_PINS,
) -> Body:
    """The object of a binding as this member gets it. `avoided`: nodes that its pods keep off; `pins`: the domains that
    they are held to; `live_copy`: the copy of this attempt that the member has. Raises BadOverride, and UnsafeManifest
    where no override is to blame."""
    return blaming(
        lambda some: _manifest(source, binding, hub_id, cluster, some, avoided, live_copy, pins), source, policies
    )


def _manifest(
    source: Body,
    binding: Body,
    hub_id: str,
    cluster: ClusterFields,
    policies: Sequence[Body],
    avoided: Sequence[str],
    live_copy: Body | None,
    pins: DomainPins,
) -> Body:
    labels = marks(hub_id, binding)
    annotations = {ANNOTATION_JOB: b.job_name(binding)}
    interpreter = interpreter_of(source["apiVersion"], source["kind"]) if b.is_gang(binding) else None
    if interpreter is not None:
        bare = {name: value for name, value in source.items() if name != "status"}  # not changed below: copied
        charged = components_of(binding)
        changed = overridden(fitted(bare, interpreter, charged), source, cluster, policies)
        own = {name: labels[name] for name in (LABEL_BINDING, ATTEMPT)}
        changed = pinned(changed, interpreter, pins.by_affinity(rules_of(binding)), chosen_domain(binding), own)
        if b.annotation(binding, ANNOTATION_ROOM) == Driver.PLACEHOLDERS:
            changed = gated(changed, interpreter.templates(changed))
        state = preserved.state_of(binding)
        changed = with_environment(changed, interpreter.templates(changed), preserved.environment(state))
        changed = off_nodes(changed, interpreter.templates(changed), avoided)
        pins = pins.fitting(interpreter.templates(changed))
        changed = pins.applied(changed, interpreter.templates(changed))  # last, since adoption undoes it from the end
        annotations |= pins.annotations
        annotations |= {ANNOTATION_AVOIDED: ",".join(avoided)} if avoided else {}
        told = preserved.labels(state)
        annotations = {**{key: value for key, value in state.items() if key not in told}, **annotations}
        stamped = interpreter.stamp(changed, {**told, **labels}, annotations, member_copy=live_copy)
        if gang := b.annotation(binding, ANNOTATION_GANG):
            stamped = marked(stamped, at_once(interpreter, stamped), gang, gang_name(binding))
        return hashed(checked(stamped, source, labels, charged))
    body = _marked(overridden(_bare(source), source, cluster, policies), labels, annotations)
    return hashed(checked(body, source, labels, None))


def pod_group(job: Body, binding: Body, hub_id: str) -> Body | None:
    """The object that the member's gang scheduler wants for this job, which is as the member gets it; None for none."""
    gang = b.annotation(binding, ANNOTATION_GANG)
    interpreter = interpreter_of(job["apiVersion"], job["kind"])
    if not gang or interpreter is None:
        return None
    group = group_of(job, at_once(interpreter, job), gang, gang_name(binding))
    if group is None:
        return None
    return hashed(_marked(group, marks(hub_id, binding), {ANNOTATION_JOB: b.job_name(binding)}))


def headless(service: Body) -> bool:
    """Whether the Service only names pods."""
    spec = mapping(service.get("spec"))
    return spec.get("clusterIP") == "None" and spec.get("type", "ClusterIP") == "ClusterIP"


def dependency(
    source: Body, hub_id: str, users: Iterable[str], cluster: ClusterFields, policies: Sequence[Body]
) -> Body:
    """A dependency as this member gets it. A claim has its requests and not the volume that it got on the hub; a
    service account has no token Secrets; a headless Service has its selector and ports only; a PriorityClass is the
    default of no pod. `users`: uids of all the bindings that use it there, at least one. A dependency carries no
    attempt, since it is shared. Raises as `manifest`."""
    listed = sorted(users)
    labels = {LABEL_HUB: hub_id, LABEL_BINDING: listed[0]}
    annotations = {ANNOTATION_USERS: orjson.dumps(listed).decode()}

    def make(some: Sequence[Body]) -> Body:
        body = _marked(_narrowed(overridden(_bare(source), source, cluster, some)), labels, annotations)
        return hashed(checked(body, source, labels, None))

    return blaming(make, source, policies)


def users_of(copy_: Body) -> frozenset[str]:
    """Uids of the bindings that a copy in a member names as its users. An annotation that people of the member changed
    names none; the caller compares the uids with the hub's own bindings."""
    text = (copy_["metadata"].get("annotations") or {}).get(ANNOTATION_USERS, "[]")
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = []
    named = {uid for uid in found if isinstance(uid, str) and uid} if isinstance(found, list) else set()
    own = (copy_["metadata"].get("labels") or {}).get(LABEL_BINDING)
    return frozenset(named) or frozenset({own} if own else ())


def with_users(copy_: Body, hub_id: str, users: Iterable[str]) -> Body:
    """A dependency's manifest as the member shows it, for other users."""
    body = _narrowed(_bare(copy_))
    remaining = sorted(users)
    labels = {**body["metadata"].get("labels", {}), LABEL_HUB: hub_id, LABEL_BINDING: remaining[0]}
    return hashed(_marked(body, labels, {ANNOTATION_USERS: orjson.dumps(remaining).decode()}))


def is_dependency(copy_: Body) -> bool:
    return ANNOTATION_USERS in (copy_["metadata"].get("annotations") or {})


def hash_of(body: Body) -> str:
    return b.annotation(body, ANNOTATION_HASH)


def hashed(body: Body) -> Body:
    """The manifest with its digest, so that an equal one need not be sent again."""
    annotations = body["metadata"].setdefault("annotations", {})
    annotations.pop(ANNOTATION_HASH, None)
    digest = hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
    annotations[ANNOTATION_HASH] = digest
    return body


def _bare(source: Body) -> Body:
    """Without what only the hub (or the member) means."""
    body = {k: copy.deepcopy(v) for k, v in source.items() if k not in ("metadata", "status")}
    meta = source["metadata"]
    metadata = {name: meta[name] for name in ("name", "namespace") if meta.get(name)}
    metadata["labels"] = without_hub_keys(meta.get("labels") or {})
    metadata["annotations"] = without_hub_keys(
        {k: v for k, v in (meta.get("annotations") or {}).items() if k != LAST_APPLIED}
    )
    if source.get("kind") == "Namespace":
        body.pop("spec", None)
    if source.get("kind") == VOLUME_CLAIM:
        body["spec"] = {k: v for k, v in (body.get("spec") or {}).items() if k != "volumeName"}
        metadata["annotations"] = {
            k: v for k, v in metadata["annotations"].items() if not k.startswith(_OF_ONE_CLUSTER)
        }
    if source.get("kind") == "ServiceAccount":
        body.pop("secrets", None)
    return {**body, "metadata": metadata}


def _narrowed(body: Body) -> Body:
    """A dependency without what the member gives it, or must not get by it."""
    if body.get("kind") == "Service":
        body["spec"] = {name: value for name, value in mapping(body.get("spec")).items() if name in _OF_HEADLESS}
    return classes.narrowed(body) if body.get("kind") == classes.KIND else body


def _marked(body: Body, labels: dict[str, str], annotations: dict[str, str]) -> Body:
    body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), **labels}
    body["metadata"]["annotations"] = {**(body["metadata"].get("annotations") or {}), **annotations}
    return body
