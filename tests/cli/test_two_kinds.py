"""A batch Job and a Volcano Job of one name in one namespace: two jobs in every command, path and binding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.client import Fleet
from tests.cli.hub import Up, fleet, until
from tests.controllers.world import cluster_policy
from tests.kinds.bodies import pods
from tests.simulate.declarations import crd

VOLCANO = "batch.volcano.sh/v1alpha1"
PATHS = {
    "job": "/apis/batch/v1/namespaces/default/jobs",
    "volcano": f"/apis/{VOLCANO}/namespaces/default/jobs",
    "bindings": "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings",
}
Body = dict[str, Any]


def batch(name: str, **spec: Any) -> Body:
    template = pods(1, restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": template, **spec},
    }


def volcano(name: str, annotations: dict[str, str] | None = None) -> Body:
    return {
        "apiVersion": VOLCANO,
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {"tasks": [{"name": "worker", "replicas": 1, "template": pods(1, restartPolicy="Never")}]},
    }


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("two")
    running = Up(folder / "hub", "--members", "1")
    try:
        kind = crd("batch.volcano.sh", "v1alpha1", "Job", "jobs")
        file = folder / "crd.json"
        file.write_text(json.dumps(kind))
        amc = ("--kubeconfig", str(running.folder / "kubeconfig"), "-M")
        assert fleet("apply", "-f", str(file), *amc, program="kubectl-amc").returncode == 0
        policy = cluster_policy("jobs")
        policy["spec"]["resourceSelectors"] = [
            {"apiVersion": version, "kind": "Job"} for version in ("batch/v1", VOLCANO)
        ]
        for body in (kind, policy):
            file.write_text(json.dumps(body))
            assert run(running, "submit", str(file)) == 0
        hub = running.hub
        until("the hub serves the kind", lambda: hub.find(PATHS["volcano"]) is not None)
        clusters = "/apis/cluster.karmada.io/v1alpha1/clusters"
        until("the member serves the kind", lambda: VOLCANO in json.dumps(hub.list(clusters)))
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def run(up: Up, *words: str) -> int:
    return said(up, *words)[0]


def said(up: Up, *words: str) -> tuple[int, str]:
    done = fleet(*words, "--data-dir", str(up.folder))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def both(up: Up) -> Up:
    """The batch Job train, and the Volcano Job train after it."""
    hub = up.hub
    hub.request("POST", PATHS["job"], batch("train"))
    until("the first runs", lambda: states(up).get("Job") == "Running")
    hub.request("POST", PATHS["volcano"], volcano("train"))
    until("both run", lambda: set(states(up).values()) == {"Running"} and len(states(up)) == 2)
    return up


def states(up: Up, name: str = "train") -> dict[str, str]:
    page = up.hub.request("GET", f"/fleet/v1/jobs?namespace=default&name={name}").body
    return {one["kind"]: one["state"] for one in page["items"]}


def test_each_has_a_binding_of_its_own(both: Up) -> None:
    found = {one["metadata"]["name"]: one["spec"]["resource"]["apiVersion"] for one in both.hub.list(PATHS["bindings"])}
    assert found == {"train-job": "batch/v1", "train-job-batch.volcano.sh": VOLCANO}


def test_a_command_takes_the_kind_with_its_group(both: Up) -> None:
    code, text = said(both, "explain", "train")
    assert code == 1 and '"train" names several jobs: Job.batch.volcano.sh/train, Job/train' in text
    for word, line in (
        ("Job", "batch/v1"),
        ("job", "batch/v1"),
        ("jobs.batch.volcano.sh", VOLCANO),
        ("Job.batch.volcano.sh", VOLCANO),
    ):
        for command in (("explain",), ("show",), ("logs",), ("top",)):
            code, text = said(both, *command, f"{word}/train")
            assert code == 0, (command, word, text)
        with Fleet(kubeconfig=both.folder / "kubeconfig") as client:
            found = client.job(f"{word}/train")
            assert line.rpartition("/")[0] in found.object and found.state == "Running"


def test_a_verb_changes_the_one_that_is_named(both: Up) -> None:
    code, text = said(both, "hold", "job.batch.volcano.sh/train")
    assert code == 0 and text.startswith("job.batch.volcano.sh/train held\n")
    bodies = {name: both.hub.request("GET", f"{PATHS[name]}/train").body for name in ("job", "volcano")}
    held = {name: "fleet.io/hold" in (body["metadata"].get("annotations") or {}) for name, body in bodies.items()}
    assert held == {"job": False, "volcano": True}
    assert run(both, "release", "job.batch.volcano.sh/train") == 0


def test_rest_paths_and_filters_know_the_group(both: Up) -> None:
    jobs = "/fleet/v1/jobs"
    for word, version in (("Job", "batch/v1"), ("Job.batch.volcano.sh", VOLCANO)):
        detail = both.hub.request("GET", f"{jobs}/default/{word}/train").body
        assert detail["kind"] == word and f"/apis/{version}/" in detail["object"]
        binding = both.hub.find(detail["binding"])
        assert binding is not None and binding["spec"]["resource"]["apiVersion"] == version
        page = both.hub.request("GET", f"{jobs}?namespace=default&kind={word}").body
        assert {one["kind"] for one in page["items"]} == {word}
    first = both.hub.request("GET", f"{jobs}?namespace=default&name=train&limit=1").body
    second = both.hub.request("GET", f"{jobs}?namespace=default&name=train&limit=1&continue={first['continue']}").body
    assert [first["items"][0]["kind"], second["items"][0]["kind"]] == ["Job", "Job.batch.volcano.sh"]


def test_the_history_keeps_them_apart(both: Up) -> None:
    def lives() -> dict[str, str]:
        found = both.hub.request("GET", "/fleet/v1/history?namespace=default&name=train").body["items"]
        return {one["kind"]: one["started"] for one in found}

    until("both have started", lambda: set(lives()) == {"Job", "Job.batch.volcano.sh"} and all(lives().values()))
    for kind in lives():
        assert both.hub.request("GET", f"/fleet/v1/history/default/{kind}/train").body["kind"] == kind


def test_a_job_starts_after_the_one_that_it_names(both: Up) -> None:
    hub, path = both.hub, "/fleet/v1/jobs/default/Job.batch.volcano.sh/{}"
    for name, after in (("one", "Job/train:any"), ("two", "job.batch.volcano.sh/train:any"), ("three", "train:any")):
        hub.request("POST", PATHS["volcano"], volcano(name, {"fleet.io/after": after}))

    def state(name: str) -> str:
        return str(hub.request("GET", path.format(name)).body["state"])

    def waits(*names: str) -> bool:
        found = [hub.request("GET", path.format(name)).body for name in names]
        return all((one["reason"] or {}).get("code") == "WaitsForJobs" for one in found)

    until("all wait", lambda: waits("one", "two", "three"))
    assert run(both, "cancel", "Job/train") == 0
    until("the first starts", lambda: state("one") == "Running")
    assert waits("two", "three")
    assert states(both) == {"Job.batch.volcano.sh": "Running"}
    assert said(both, "wait", "job.batch.volcano.sh/train", "--timeout", "1")[0] == 124
    assert run(both, "cancel", "train") == 0
    until("the others start", lambda: [state("two"), state("three")] == ["Running"] * 2)


def test_the_first_of_the_two_may_be_of_either_group(up: Up) -> None:
    """A hub that had Volcano Jobs before keeps the names of their bindings."""
    hub = up.hub
    hub.request("POST", PATHS["volcano"], volcano("other"))
    until("it has a binding", lambda: hub.find(f"{PATHS['bindings']}/other-job") is not None)
    hub.request("POST", PATHS["job"], batch("other"))
    until("so has the second", lambda: hub.find(f"{PATHS['bindings']}/other-job-batch") is not None)
    assert run(up, "cancel", "job.batch.volcano.sh/other") == 0
    until("the first has left", lambda: hub.find(f"{PATHS['bindings']}/other-job") is None)
    until("the second goes on", lambda: states(up, "other") == {"Job": "Running"})
    assert hub.find(f"{PATHS['bindings']}/other-job-batch") is not None


def test_what_python_submits_is_of_the_group_of_its_manifest(up: Up) -> None:
    with Fleet(kubeconfig=up.folder / "kubeconfig") as client:
        for body, path in ((batch("twice"), "/apis/batch/v1/"), (volcano("twice"), f"/apis/{VOLCANO}/")):
            submitted = client.submit(body)
            for named in (submitted, submitted.job):
                assert path in client.job(named).object


def test_a_manifest_of_either_group_is_submitted_over_rest(up: Up, tmp_path: Path) -> None:
    for body, kind in ((batch("rest"), "Job"), (volcano("rest"), "Job.batch.volcano.sh")):
        made = up.hub.request("POST", "/fleet/v1/jobs", body)
        assert made.body["kind"] == kind
        manifest = tmp_path / "job.json"
        manifest.write_text(json.dumps({**body, "metadata": {**body["metadata"], "name": "checked"}}))
        assert run(up, "check", str(manifest)) == 0
