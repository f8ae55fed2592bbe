"""Pods and pod templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from api.admission.causes import duplicate, forbidden, invalid, required, unsupported
from api.admission.kubernetes.containers import backsteps, containers, descending
from api.admission.kubernetes.language import (
    Check,
    Object,
    amount,
    at,
    between,
    every,
    join,
    label,
    labels_at,
    natural,
    needed,
    of,
    one_of,
    selector_at,
    subdomain,
)
from api.engine.status import Cause
from fleet.values.names import label_problems, label_value_problems, qualified_name_problems

_MODE = of("defaultMode", lambda mode: () if 0 <= mode <= 0o777 else (_MODE_TEXT,))
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_DEADLINE_MAX = 2**31 - 1
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
# The sources of a volume, in the order in which Kubernetes looks at them.
_SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)


def _inside(value: str) -> Iterator[str]:
    yield from descending(value)
    if value.startswith("..") and not value.startswith("../"):
        yield "must not start with '..'"


_ITEMS = at("items[]", needed("key", "path"), of("path", _inside))
_ABSOLUTE = of("path", lambda path: () if path.startswith("/") else ("must be an absolute path",))
_SOURCE_CHECKS: dict[str, Check] = {
    "hostPath": every(needed("path"), of("path", backsteps), one_of("type", *_HOST_PATH_TYPES, needed=False)),
    "secret": every(needed("secretName"), _MODE, _ITEMS),
    "configMap": every(needed("name"), _MODE, _ITEMS),
    "nfs": every(needed("server", "path"), _ABSOLUTE),
    "persistentVolumeClaim": needed("claimName"),
    "downwardAPI": _MODE,
    "projected": _MODE,
    "csi": needed("driver"),
    "iscsi": needed("targetPortal", "iqn"),
    "awsElasticBlockStore": needed("volumeID"),
    "gcePersistentDisk": needed("pdName"),
    "cephfs": needed("monitors"),
    "rbd": needed("monitors", "image"),
    "glusterfs": needed("endpoints", "path"),
    "azureFile": needed("secretName", "shareName"),
    "ephemeral": needed("volumeClaimTemplate"),
}


def volume_sources(volume: Object, path: str) -> Iterator[Cause]:
    """Exactly one source, and a sound one."""
    sources = [name for name in _SOURCES if volume.get(name) is not None]
    if not sources:
        yield required(path, "must specify a volume type")
    for name in sources[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 volume type")
    if sources and sources[0] in _SOURCE_CHECKS:
        yield from _SOURCE_CHECKS[sources[0]](volume[sources[0]], f"{path}.{sources[0]}")


def _volumes(spec: Object, path: str, volumes: dict[str, Object]) -> Iterator[Cause]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        place, name = f"{path}.volumes[{index}]", volume.get("name") or ""
        causes = list(volume_sources(volume, place))
        if name:
            causes.extend(invalid(f"{place}.name", name, why) for why in label_problems(name))
        else:
            causes.append(required(f"{place}.name"))
        if name in volumes:
            causes.append(duplicate(f"{place}.name", name))
        if causes:
            yield from causes
        else:
            volumes[name] = volume


def _toleration(toleration: Object, path: str) -> Iterator[Cause]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if key:
        yield from (invalid(f"{path}.key", key, why) for why in qualified_name_problems(key))
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, why)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        problems = label_value_problems(value)
        if problems:
            yield invalid(f"{path}.operator", value, ";".join(problems))
    elif operator == "Exists":
        if value:
            yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        yield unsupported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", effect, _EFFECTS)


def _node_term(term: Object, path: str) -> Iterator[Cause]:
    for index, rule in enumerate(term.get("matchExpressions") or ()):
        place, operator = f"{path}.matchExpressions[{index}]", rule.get("operator") or ""
        values = rule.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield forbidden(f"{place}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                yield required(f"{place}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        else:
            yield invalid(f"{place}.operator", operator, "not a valid selector operator")
        key = rule.get("key") or ""
        yield from (invalid(f"{place}.key", key, why) for why in qualified_name_problems(key))


def _pod_term(term: Object, path: str) -> Iterator[Cause]:
    yield from selector_at(term.get("labelSelector"), f"{path}.labelSelector")
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from (invalid(f"{path}.topologyKey", key, why) for why in qualified_name_problems(key))


_AFFINITY = at(
    "affinity",
    at("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", needed("nodeSelectorTerms")),
    at("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[]", _node_term),
    at(
        "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[]",
        at("preference", _node_term),
        between("weight", 1, 100),
    ),
    *(
        check
        for side in ("podAffinity", "podAntiAffinity")
        for check in (
            at(f"{side}.requiredDuringSchedulingIgnoredDuringExecution[]", _pod_term),
            at(
                f"{side}.preferredDuringSchedulingIgnoredDuringExecution[]",
                at("podAffinityTerm", _pod_term),
                between("weight", 1, 100),
            ),
        )
    ),
)


def _spread(constraint: Object, path: str) -> Iterator[Cause]:
    if (constraint.get("maxSkew") or 0) <= 0:
        yield invalid(f"{path}.maxSkew", constraint.get("maxSkew") or 0, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    supported = ("DoNotSchedule", "ScheduleAnyway")
    if constraint.get("whenUnsatisfiable") not in supported:
        yield unsupported(f"{path}.whenUnsatisfiable", constraint.get("whenUnsatisfiable") or "", supported)
    yield from selector_at(constraint.get("labelSelector"), f"{path}.labelSelector")


def _overhead(spec: Object, path: str) -> Iterator[Cause]:
    for name, value in (spec.get("overhead") or {}).items():
        yield from amount(value, f"{path}.overhead[{name}]")


def _host_network(spec: Object, path: str) -> Iterator[Cause]:
    if spec.get("hostNetwork"):
        for index, container in enumerate(spec.get("containers") or ()):
            for position, port in enumerate(container.get("ports") or ()):
                if port.get("hostPort") not in (None, 0, port.get("containerPort")):
                    here = f"{path}.containers[{index}].ports[{position}].containerPort"
                    why = "must match `hostPort` when `hostNetwork` is true"
                    yield invalid(here, port.get("containerPort"), why)


def _node_selector(spec: Object, path: str) -> Iterable[Cause]:
    return labels_at(spec.get("nodeSelector"), f"{path}.nodeSelector")


_REST = every(
    one_of("restartPolicy", "Always", "OnFailure", "Never"),
    one_of("dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    _node_selector,
    _AFFINITY,
    at("topologySpreadConstraints[]", _spread),
    at("imagePullSecrets[]", needed("name")),
    subdomain("serviceAccountName"),
    subdomain("nodeName"),
    subdomain("priorityClassName"),
    subdomain("runtimeClassName"),
    of(
        "activeDeadlineSeconds",
        lambda s: () if 1 <= s <= _DEADLINE_MAX else (f"must be between 1 and {_DEADLINE_MAX}, inclusive",),
    ),
    label("hostname"),
    label("subdomain"),
    at("tolerations[]", _toleration),
    one_of("preemptionPolicy", "PreemptLowerPriority", "Never", needed=False),
    _overhead,
    _host_network,
)


def pod_spec(spec: Object, path: str, more_volumes: Mapping[str, Object] | None = None) -> Iterator[Cause]:
    """`more_volumes`: those that a controller adds (the claims of a StatefulSet), which hide the pod's own."""
    volumes: dict[str, Object] = {}
    own = spec
    if more_volumes:
        kept = [v for v in spec.get("volumes") or () if v.get("name") not in more_volumes]
        own = {**spec, "volumes": kept}
    yield from _volumes(own, path, volumes)
    yield from containers(spec, path, {**volumes, **(more_volumes or {})})
    yield from _REST(spec, path)


def template(body: Object, path: str, more_volumes: Mapping[str, Object] | None = None) -> Iterator[Cause]:
    """A pod template at `path`."""
    metadata: Mapping[str, Any] = body.get("metadata") or {}
    yield from labels_at(metadata.get("labels"), f"{path}.labels")
    for key in metadata.get("annotations") or {}:
        yield from (invalid(f"{path}.annotations", key, why) for why in qualified_name_problems(key.lower()))
    spec: Mapping[str, Any] = body.get("spec") or {}
    yield from pod_spec(spec, join(path, "spec"), more_volumes)
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _created(body: Object, path: str) -> Iterator[Cause]:
    spec = body.get("spec") or {}
    yield from pod_spec(spec, "spec")


POD: Check = every(_created, at("spec", natural("terminationGracePeriodSeconds")))
POD_TEMPLATE: Check = lambda body, path: template(body.get("template") or {}, "template")  # noqa: E731


# -- updates

_CHANGEABLE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
_CHANGEABLE_TEXT = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def pod_stays(new: Object, old: Object) -> Iterator[Cause]:
    """A pod keeps its spec but for a few fields; one with scheduling gates may get another place, too."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    aside = (*_CHANGEABLE, "nodeSelector", "affinity") if before.get("schedulingGates") else _CHANGEABLE
    if _kept(spec, aside) != _kept(before, aside):
        yield forbidden("spec", f"pod updates may not change fields other than {_CHANGEABLE_TEXT}")


def _kept(spec: Object, aside: tuple[str, ...]) -> Object:
    kept = {key: value for key, value in spec.items() if key not in aside}
    for field in ("containers", "initContainers"):
        if field in kept:
            kept[field] = [{k: v for k, v in container.items() if k != "image"} for container in kept[field]]
    return kept
