"""`fleet submit` and `fleet delete`: files as people have them, and what is said when something is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.cli.applying import folded
from fleet.cli.failure import Failure
from fleet.cli.manifests import documents
from fleet.submission.dumps import as_written
from tests.cli.hub import Up, fleet, refusal, until
from tests.cli.manifests import TREE, job, policy, written
from tests.simulate.declarations import DECLARED, WIDGET, widget

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A hub whose jobs have a policy and a queue, and no member to go to."""
    running = Up(tmp_path_factory.mktemp("submit") / "hub")
    try:
        set_up = written(running.folder / "set-up.yaml", TREE, policy())
        assert fleet("submit", set_up, "--data-dir", str(running.folder)).returncode == 0
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def submitted(up: Up, path: Path, *bodies: dict[str, Any]) -> list[str]:
    done = fleet("submit", written(path, *bodies), "--data-dir", str(up.folder))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_job_is_said_to_be_in_its_queue_and_anything_else_to_be_there(up: Up, tmp_path: Path) -> None:
    said = submitted(up, tmp_path / "a.yaml", CONFIG, job("queued"))
    assert said == ["configmap/settings created", "pytorchjob.kubeflow.org/queued created, in queue root/a"]
    assert submitted(up, tmp_path / "a.yaml", job("queued")) == [
        "pytorchjob.kubeflow.org/queued applied, in queue root/a"
    ]


def test_a_job_of_a_kind_that_a_user_declared_is_said_to_be_in_its_queue_and_can_be_asked_about(
    up: Up, tmp_path: Path
) -> None:
    selects = {"resourceSelectors": [{"apiVersion": "example.com/v1", "kind": "Widget"}]}
    declared = {**policy(), "metadata": {"name": "widgets"}, "spec": {**policy()["spec"], **selects}}
    submitted(up, tmp_path / "crd.yaml", WIDGET)
    submitted(up, tmp_path / "kind.yaml", DECLARED, declared)
    [line] = submitted(up, tmp_path / "a.yaml", widget("one"))
    assert line == "widget.example.com/one created, in queue root/a"
    until("the decider left a snapshot", lambda: up.hub.find("/fleet/v1/snapshot") is not None)
    path = written(tmp_path / "b.yaml", widget("two"))
    asked = fleet("what-if", "--submit", path, "--add-member", "new=1x8", "--data-dir", str(up.folder))
    assert asked.returncode == 0 and "default/two" in asked.stdout, asked.stdout + asked.stderr


def test_a_job_that_no_policy_takes_is_said_to_wait_for_one(up: Up, tmp_path: Path) -> None:
    other = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "free"}}
    other["spec"] = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}
    [line] = submitted(up, tmp_path / "a.yaml", other)
    assert line.startswith("job.batch/free created; no policy takes it"), line


def test_a_dump_is_submitted_again_under_another_name(up: Up, tmp_path: Path) -> None:
    submitted(up, tmp_path / "a.yaml", job("first"))
    until("the hub has marked it", lambda: "fleet.io" in str(up.hub.find(f"{JOBS}/first")))
    dump = up.hub.find(f"{JOBS}/first")
    assert dump is not None
    dump["metadata"]["name"] = "second"
    submitted(up, tmp_path / "b.yaml", dump)
    second = up.hub.find(f"{JOBS}/second")
    assert second is not None and second["metadata"]["uid"] != dump["metadata"]["uid"]
    assert second["spec"] == dump["spec"]


def test_a_name_that_the_hub_completes_is_printed(up: Up, tmp_path: Path) -> None:
    body = job("x")
    body["metadata"] = {"generateName": "train-"}
    lines = submitted(up, tmp_path / "a.yaml", body, body)
    names = [line.split()[0].partition("/")[2] for line in lines]
    assert len(set(names)) == 2 and all(up.hub.find(f"{JOBS}/{name}") for name in names), lines


def test_a_list_is_as_many_documents(up: Up, tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [job("l1"), job("l2")]}
    untyped = {field: part for field, part in job("l3").items() if field != "apiVersion"}
    typed = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJobList", "items": [untyped]}
    lines = submitted(up, tmp_path / "a.yaml", listed, typed)
    assert [line.split()[0] for line in lines] == [f"pytorchjob.kubeflow.org/l{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n---\n# here\n"])
def test_a_file_without_an_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    assert refusal(fleet("submit", str(path))) == f"fleet: {path} is empty: no object in it"
    assert refusal(fleet("submit", "-")) == "fleet: stdin is empty: no object in it"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: b: c", "document 1 is not YAML: line 1, column 5: mapping values are not allowed"),
        ("a: [b", "document 1 is not YAML: line 2, column 1: did not find expected ',' or ']' (while parsing a flow"),
        ("kind: ConfigMap\n", "document 1 has no apiVersion and no metadata.name"),
        ("apiVersion: v1\nkind: A\nmetadata: {}\n", "document 1 has no metadata.name"),
        ("- a\n", "document 1 is no object"),
        ("apiVersion: v1\nkind: List\nitems: [3]\n", "document 1, item 1 is no object"),
        ("apiVersion: v1\nkind: A\nmetadata: {name: a, name: b}\n", 'key "name" already set in map'),
    ],
)
def test_a_file_that_cannot_be_read_names_its_document(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(Failure) as refused:
        documents(path)
    assert str(refused.value).startswith(str(path)) and said in str(refused.value)


def test_a_date_is_text_as_the_hub_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {day: 2026-01-01}}\n")
    assert documents(path)[0]["data"] == {"day": "2026-01-01"}


def test_marks_of_the_hub_leave_a_dump_and_stay_in_a_manifest() -> None:
    marks = {"fleet.io/creator": "eve", "team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    metadata = {"name": "a", "annotations": marks}
    manifest = {"kind": "Job", "metadata": metadata, "spec": {"selector": {"x": "y"}}}
    assert as_written(manifest) == manifest
    dump = {**manifest, "metadata": {**metadata, "uid": "u", "generation": 3}, "status": {"active": 1}}
    assert as_written(dump) == {
        "kind": "Job",
        "metadata": {"name": "a", "annotations": {"team": "a"}},
        "spec": {},
    }


def test_what_client_side_apply_held_is_held_by_server_side_apply() -> None:
    def entry(manager: str, operation: str, **fields: Any) -> dict[str, Any]:
        return {"manager": manager, "operation": operation, "fieldsV1": fields}

    theirs, ours = entry("kubectl-client-side-apply", "Update", a={"b": {}}), entry("kubectl", "Apply", a={"c": {}})
    status = {**entry("kubectl-client-side-apply", "Update"), "subresource": "status"}
    other = entry("fleet", "Update", d={})
    assert folded([ours, other, status]) is None
    assert folded([theirs, other, status, ours]) == [other, status, entry("kubectl", "Apply", a={"b": {}, "c": {}})]


def test_a_name_that_is_missing_keeps_none_of_the_others_from_being_deleted(up: Up, tmp_path: Path) -> None:
    submitted(up, tmp_path / "a.yaml", job("gone1"), job("gone2"))
    names = ("pytorchjob/gone1", "pytorchjob/never", "nonsense/x", "gone2", "pytorchjob/gone2")
    done = fleet("delete", *names, "--data-dir", str(up.folder))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f'pytorchjob.kubeflow.org "gone{number}" deleted' for number in (1, 2)]
    assert done.stderr.splitlines() == [
        'fleet: pytorchjobs.kubeflow.org "never" not found',
        'fleet: "nonsense/x" is not KIND/NAME of anything that the hub serves',
        'fleet: "gone2" is no KIND/NAME, such as pytorchjob/gone2',
    ]


def test_a_name_that_is_nearly_right_is_suggested(up: Up, tmp_path: Path) -> None:
    submitted(up, tmp_path / "a.yaml", job("resnet"))
    said = refusal(fleet("explain", "resnt", "--data-dir", str(up.folder)))
    assert said == 'fleet: no job "resnt" in namespace default; did you mean resnet? (fleet jobs -A lists them)'
    said = refusal(fleet("explain", "tfjob/resnet", "--data-dir", str(up.folder)))
    assert said == (
        'fleet: no job "tfjob/resnet" in namespace default; there is PyTorchJob/resnet (fleet jobs -A lists them)'
    )
    assert refusal(fleet("explain", "", "--data-dir", str(up.folder))).startswith('fleet: "" is no name of a job')
    said = refusal(fleet("explain", "resnet", "-n", "team", "--data-dir", str(up.folder)))
    assert said == 'fleet: no job "resnet" in namespace team; there is one in default (fleet jobs -A lists them)'


def test_a_manifest_of_another_namespace_than_the_command_is_refused_before_anything_is_stored(
    up: Up, tmp_path: Path
) -> None:
    bodies = (job("here1"), job("there", namespace="default"))
    file = written(tmp_path / "a.yaml", *bodies)
    said = refusal(fleet("submit", file, "-n", "team", "--data-dir", str(up.folder)))
    assert said == "fleet: PyTorchJob there is of namespace default, and --namespace says team"
    assert "here1" not in fleet("jobs", "-A", "-o", "json", "--data-dir", str(up.folder)).stdout


def test_what_the_hub_warns_of_is_printed_once(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    body = {**CONFIG, "metadata": {"name": "warned"}, "unknown": 1}
    hub = up.hub
    for _ in range(2):
        hub.request("POST", "/api/v1/namespaces/default/configmaps?fieldValidation=Warn&dryRun=All", body)
    assert capsys.readouterr().err == 'Warning: unknown field "unknown"\n'
