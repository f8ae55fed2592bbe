"""The manifests of a request: the job, and before it the ConfigMap of its code."""

from __future__ import annotations

import copy
from base64 import b64encode
from collections.abc import Mapping

from fleet.submission import interactive
from fleet.submission.layouts import Role, layout_of, longest_suffix, resize, roles_of, skeleton
from fleet.submission.request import NAME_MOST, Body, CodeArchive, Request, RequestFault, check
from fleet.wellknown import ANNOTATION_PREFERRED_TOPOLOGY, ANNOTATION_TOPOLOGY, LABEL_CODE, QUOTA_NAME_LABELS

GPU = "nvidia.com/gpu"
ARCHIVE = "code.tar.gz"
CODE = "fleet-code"  # the volume of the archive, and the container that unpacks it
_PACKED = "/fleet-code"  # where pods find the archive
_LAUNCHER = {"cpu": "1", "memory": "1Gi"}  # requests of a leader that only starts the workers


def build(request: Request) -> list[Body]:
    """The objects to create, in this order. Raises RequestFault, which names the part of the request that cannot be."""
    check(request)
    try:
        job = _built(request)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if request.template is None or isinstance(error, RequestFault):
            raise
        raise RequestFault("template", f"its manifest cannot be read: {type(error).__name__}: {error}") from error
    return [*([] if request.code is None else [_code(request.code, job)]), job]


def code_name(job: str) -> str:
    """The ConfigMap with the code of a job."""
    return f"{job}-code"


def _built(request: Request) -> Body:
    job = _job(request)
    job["metadata"] = _metadata(request, job["metadata"])
    for role in roles_of(job):
        _pod(role, request, layout_of(job["kind"]).container)
    if request.time_s or request.interactive:
        _limit(job, request.time_s or interactive.TIME_S)
    longest = NAME_MOST - longest_suffix(job)
    if len(request.name) > longest:
        raise RequestFault(
            "name", f"is {len(request.name)} characters long, of at most {longest} for this {job['kind']}"
        )
    return job


def _job(request: Request) -> Body:
    """The template with the size that was asked for, or a job from nothing."""
    if request.template is None:
        return skeleton(request)
    job = copy.deepcopy(request.template)
    kind = str(job.get("kind"))
    try:
        layout = layout_of(kind)
    except RequestFault as wrong:
        raise RequestFault("template", f"its job is a {kind}: {wrong.why}") from wrong
    if job.get("apiVersion") != layout.api_version or not isinstance(job.get("spec"), dict):
        raise RequestFault("template", f"it holds no {kind} of {layout.api_version}")
    if request.kind and request.kind != kind:
        raise RequestFault("kind", f"{request.kind} is not the kind of the template, {kind}")
    job.setdefault("metadata", {})
    if request.workers is not None:
        resize(job, request.workers)
    return job


def _metadata(request: Request, metadata: Body) -> Body:
    labels = {**(metadata.get("labels") or {}), **request.labels}
    if request.queue:
        labels[QUOTA_NAME_LABELS[0]] = request.queue
    levels = {ANNOTATION_TOPOLOGY: request.topology, ANNOTATION_PREFERRED_TOPOLOGY: request.preferred_topology}
    places = {name: level for name, level in levels.items() if level}
    annotations = {**(metadata.get("annotations") or {}), **places, **request.annotations}
    made: Body = {"name": request.name}
    for field, value in (("namespace", request.namespace), ("labels", labels), ("annotations", annotations)):
        if value:
            made[field] = value
    return made


def _pod(role: Role, request: Request, name: str) -> None:
    """Put the request into the pod template of one replica type."""
    metadata = role.pod.get("metadata") or {}
    for field, given in (("labels", request.labels), ("annotations", request.annotations)):
        told = {**(metadata.get(field) or {}), **_of_pods(given)}
        if told:
            metadata[field] = told
    if metadata:
        role.pod["metadata"] = metadata
    spec = role.pod.setdefault("spec", {})
    container = _container(spec, name)
    if request.image:
        container["image"] = request.image
    if not container.get("image"):
        raise RequestFault("image", "is missing: the image that the pods run")
    _run(container, role, request)
    _amounts(container, role, request)
    _variables(container, request)
    for number, mount in enumerate(request.mounts):
        source: Body = {"persistentVolumeClaim": {"claimName": mount.claim}}
        _volume(spec, container, f"mount-{number}", source, mount.path, read_only=mount.read_only)
    if request.code is not None:
        _unpack(spec, container, request.code, code_name(request.name))
    if request.node_selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **request.node_selector}
    if request.priority:
        spec["priorityClassName"] = request.priority


def _of_pods(marks: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations that say something of pods, too; those of Fleet and of its queues are the job's."""
    return {key: value for key, value in marks.items() if "fleet.io/" not in key and "quota.scheduling" not in key}


def _container(spec: Body, name: str) -> Body:
    """The one that does the work: that of the operator's name, else the first."""
    containers: list[Body] = spec.setdefault("containers", [])
    for container in containers:
        if container.get("name") == name:
            return container
    if not containers:
        containers.append({"name": name})
    return containers[0]


def _run(container: Body, role: Role, request: Request) -> None:
    if not role.runs:
        return
    what = request.interactive
    if what is not None:
        interactive.prepare(container, what)
    command = list(request.command)
    if not command and what is not None:
        command = interactive.command_of(what, request.idle_s)
    if command:
        container["command"] = command
        container.pop("args", None)
    if not container.get("command") and not container.get("args"):
        raise RequestFault("command", "is missing: write it after --")


def _amounts(container: Body, role: Role, request: Request) -> None:
    """GPUs and memory as limits, which are requests, too; a pod may use more CPU than it asks for."""
    resources = container.get("resources") or {}
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    if role.works:
        asked = {"cpu": request.cpu, "memory": request.memory, **request.resources}
        if request.gpus is not None:
            asked[GPU] = str(request.gpus) if request.gpus else ""
            requests.pop(GPU, None)
            limits.pop(GPU, None)
        for name, amount in asked.items():
            if amount:
                requests.pop(name, None)
                (requests if name == "cpu" else limits)[name] = amount
    elif request.template is None:
        requests = dict(_LAUNCHER)
    said = {field: amounts for field, amounts in (("requests", requests), ("limits", limits)) if amounts}
    if said:
        container["resources"] = said
    else:
        container.pop("resources", None)


def _variables(container: Body, request: Request) -> None:
    told = dict(request.env)
    if request.interactive is not None:
        told = {**interactive.variables(request.interactive, request.idle_s), **told}
    kept = [one for one in container.get("env") or () if one.get("name") not in told]
    env = [*kept, *({"name": name, "value": value} for name, value in told.items())]
    if env:
        container["env"] = env
    if request.secrets:
        sources = [{"secretRef": {"name": name}} for name in request.secrets]
        container["envFrom"] = [*(container.get("envFrom") or ()), *sources]


def _volume(spec: Body, container: Body, name: str, source: Body, path: str, *, read_only: bool = False) -> None:
    spec["volumes"] = [*(v for v in spec.get("volumes") or () if v.get("name") != name), {"name": name, **source}]
    kept = [one for one in container.get("volumeMounts") or () if one.get("mountPath") != path]
    container["volumeMounts"] = [*kept, _place(name, path, read_only=read_only)]


def _place(name: str, path: str, *, read_only: bool = False) -> Body:
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}


def _unpack(spec: Body, container: Body, code: CodeArchive, config_map: str) -> None:
    """An init container of the same image unpacks the archive; the command starts among the files."""
    _volume(spec, container, "fleet-workspace", {"emptyDir": {}}, code.path)
    container["workingDir"] = code.path
    spec["volumes"] = [
        *(volume for volume in spec["volumes"] if volume.get("name") != CODE),
        {"name": CODE, "configMap": {"name": config_map}},
    ]
    unpacker = {
        "name": CODE,
        "image": container["image"],
        "command": ["tar", "-xzf", f"{_PACKED}/{ARCHIVE}", "-C", code.path],
        "volumeMounts": [_place("fleet-workspace", code.path), _place(CODE, _PACKED, read_only=True)],
    }
    others = [one for one in spec.get("initContainers") or () if one.get("name") != unpacker["name"]]
    spec["initContainers"] = [*others, unpacker]


def _code(code: CodeArchive, job: Body) -> Body:
    name = job["metadata"]["name"]
    metadata: Body = {"name": code_name(name), "labels": {**(job["metadata"].get("labels") or {}), LABEL_CODE: name}}
    if "namespace" in job["metadata"]:
        metadata["namespace"] = job["metadata"]["namespace"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "binaryData": {ARCHIVE: b64encode(code.archive).decode()},
    }


def _limit(job: Body, seconds: int) -> None:
    """The member ends the job when its time is up; the hub plans with it."""
    spec = job["spec"]
    place = spec.setdefault("runPolicy", {}) if layout_of(job["kind"]).specs else spec
    place["activeDeadlineSeconds"] = seconds
