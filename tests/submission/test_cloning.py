"""Jobs with code that are copied: the copy names a ConfigMap of its own."""

from __future__ import annotations

from fleet.submission import CodeArchive, Request, build
from fleet.submission.cloning import code_map, with_own_code
from fleet.wellknown import LABEL_CODE


def test_the_copy_of_a_job_names_a_copy_of_its_code() -> None:
    request = Request(name="first", image="i", command=("python", "a.py"), workers=2, code=CodeArchive(b"packed"))
    code, job = build(request)
    assert code_map(job) == "first-code"
    job["metadata"].update(name="second", namespace="team-a")
    own = with_own_code(job, {**code, "metadata": {**code["metadata"], "uid": "1", "ownerReferences": [{}]}})
    assert code_map(job) == "second-code" and "first" not in str(job)
    assert own["metadata"] == {"name": "second-code", "namespace": "team-a", "labels": {LABEL_CODE: "second"}}
    assert own["binaryData"] == code["binaryData"] and own["kind"] == "ConfigMap"


def test_a_job_without_code_or_of_another_kind_names_none() -> None:
    (job,) = build(Request(name="first", image="i", command=("true",)))
    assert code_map(job) == ""
    assert code_map({"kind": "RayJob", "spec": {"rayClusterSpec": {}}}) == ""
