"""A copy of a job that was made with code gets code of its own, since the first job's goes with that job."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.submission.build import CODE, code_name
from fleet.submission.layouts import LAYOUTS, roles_of
from fleet.submission.request import Body
from fleet.wellknown import LABEL_CODE


def code_map(job: Body) -> str:
    """The name of the ConfigMap with its code; "" for a job without."""
    return next((text for place in _places(job) if isinstance(text := place.get("name"), str)), "")


def with_own_code(job: Body, code: Body) -> Body:
    """The ConfigMap of a job that has its name already, which then names it; `code`: that of the first job."""
    name = job["metadata"]["name"]
    for place in _places(job):
        place["name"] = code_name(name)
    metadata: Body = {"name": code_name(name), "labels": {**(code["metadata"].get("labels") or {}), LABEL_CODE: name}}
    if "namespace" in job["metadata"]:
        metadata["namespace"] = job["metadata"]["namespace"]
    content: Body = {field: code[field] for field in ("data", "binaryData") if field in code}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}


def _places(job: Body) -> Iterator[Body]:
    """The sources of the volumes that `fleet run` gave the code of the job to, as parts of it."""
    for role in roles_of(job) if job["kind"] in LAYOUTS else ():
        for volume in (role.pod.get("spec") or {}).get("volumes") or ():
            if volume.get("name") == CODE and isinstance(volume.get("configMap"), dict):
                yield volume["configMap"]
