"""Verbs on jobs, by name and by label, on a real hub with a simulated member."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fleet.amc.get import CLUSTERS
from fleet.bindings.conditions import condition
from fleet.cli.clone import put
from fleet.cli.failure import Failure
from fleet.cli.jobs import LIST, STATES
from fleet.cli.queueverbs import QUEUES
from fleet.cli.when import moment
from fleet.rest.states import State
from fleet.values.release import running
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME
from tests.cli.hub import Up, fleet, refusal, until
from tests.cli.manifests import QUOTA, job, policy, written

BATCH = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "served"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        },
    },
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A member for two jobs of 8 GPUs; `one` and `two` run there, of the sweep `lr`."""
    folder = tmp_path_factory.mktemp("verbs")
    running = Up(folder / "hub", "--members", "1", "--nodes", "2")
    try:
        swept = [job(name, labels={"sweep": "lr"}) for name in ("one", "two")]
        done = run(running, "submit", written(folder / "jobs.yaml", QUOTA, policy(), *swept, BATCH))
        assert done.returncode == 0, done.stderr
        assert run(running, "wait", "one", "two", "--for", "started", "--timeout", "90").returncode == 0
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def run(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    return fleet(*words, "--data-dir", str(up.folder))


def said(up: Up, *words: str) -> list[str]:
    done = run(up, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def states(up: Up, *words: str) -> dict[str, str]:
    return {line["name"]: line["state"] for line in json.loads(run(up, "jobs", "-o", "json", *words).stdout)}


def test_a_queue_is_held_and_released_by_its_path_or_its_end(up: Up) -> None:
    assert said(up, "hold", "queue/root/a") == ["queue/root/a held"]
    assert said(up, "clone", "one", "late") == ["pytorchjob/late created, as pytorchjob/one"]
    until("it is held", lambda: states(up, "--state", "held") == {"late": "Held"})
    explained = run(up, "explain", "late").stdout
    assert "held: the queue root/a is held, and starts jobs once it is released" in explained
    assert "Would not start it: letting it go" in explained and "  release" not in explained
    done = run(up, "release", "queue/a", "queue/roof/a")
    assert (done.returncode, done.stdout) == (1, "queue/root/a released\n")
    assert 'no queue "roof/a"; did you mean root/a?' in done.stderr
    until("it is queued", lambda: states(up)["late"] == "Queued")
    assert said(up, "cancel", "late") == ["pytorchjob/late cancelled"]
    assert run(up, "wait", "late", "--for", "deleted", "--timeout", "90").returncode == 0


def test_a_queue_is_drained_and_its_jobs_start_again_when_it_is_released(up: Up) -> None:
    assert "--drain is about queues" in refusal(run(up, "hold", "queue/root/a", "one", "--drain"))
    assert said(up, "hold", "queue/root", "--drain") == ["queue/root held, and its jobs that run are evicted"]
    until("both left", lambda: states(up, "--state", "held") == {"one": "Held", "two": "Held"})
    assert [line.split()[:3] for line in said(up, "queues")[1:]] == [["root", "2", "(held)"], ["root/a", "2", "(held)"]]
    found = {
        queue["queue"]: (queue["stop"], queue["held_by"])
        for queue in json.loads(run(up, "queues", "-o", "json").stdout)
    }
    assert found == dict.fromkeys(("root", "root/a"), ("HoldAndDrain", "root"))
    until(
        "the queue says it",
        lambda: (
            told_of_queues(up)
            == {
                "root": "no job starts; no more jobs leave",
                "root/a": "no job starts; the queue root is drained",
            }
        ),
    )
    assert "the queue root is held" in run(up, "explain", "one").stdout
    assert said(up, "release", "queue/root") == ["queue/root released"]
    assert run(up, "wait", "one", "two", "--for", "started", "--timeout", "90").returncode == 0
    until("no queue says so", lambda: told_of_queues(up) == {"root": "", "root/a": ""})


def at_once(up: Up, *words: str) -> list[tuple[int, str]]:
    """Two administrators run the same command together; their exit statuses and what they read."""
    with ThreadPoolExecutor(2) as both:
        done = list(both.map(lambda _: run(up, *words), range(2)))
    return [(one.returncode, one.stdout + one.stderr) for one in done]


def test_two_administrators_who_do_the_same_at_once_hinder_each_other_in_nothing(up: Up, tmp_path: Path) -> None:
    larger = json.loads(json.dumps(QUOTA))
    larger["metadata"]["annotations"] = {"note": "applied by two"}
    applied = [(0, "elasticquotatree.scheduling.sigs.k8s.io/tree applied\n")] * 2
    assert at_once(up, "submit", written(tmp_path / "tree.yaml", larger)) == applied
    cordoned = at_once(up, "cordon", "cfa")
    assert {status for status, _ in cordoned} == {0} and any("cfa cordoned" in said for _, said in cordoned), cordoned
    assert len((up.hub.find(f"{CLUSTERS}/cfa") or {})["spec"]["taints"]) == 1
    opened = at_once(up, "uncordon", "cfa")
    assert {status for status, _ in opened} == {0} and any("cfa uncordoned" in said for _, said in opened), opened
    assert (up.hub.find(f"{CLUSTERS}/cfa") or {})["spec"].get("taints", []) == []
    for verb in ("hold", "release"):
        stopped = [f"queue/root/a {'held' if verb == 'hold' else 'released'}\n"] * 2
        assert at_once(up, verb, "queue/root/a") == [(0, said) for said in stopped]
    assert {queue["spec"].get("stopPolicy", "None") for queue in up.hub.list(QUEUES)} == {"None"}


def told_of_queues(up: Up) -> dict[str, str]:
    """The column Held of `kubectl get queue -o wide`, by path."""
    return {
        queue["metadata"]["annotations"][ANNOTATION_QUOTA_FULLNAME]: (condition(queue, "Held") or {}).get("message", "")
        for queue in up.hub.list(QUEUES)
    }


def test_jobs_are_held_stopped_cloned_and_cancelled_by_name_and_by_label(up: Up) -> None:
    # A hold keeps a job that runs as it is, and the hub says so.
    done = run(up, "hold", "two", "nope")
    assert (done.returncode, done.stdout) == (1, "pytorchjob/two held\n")
    assert "this one runs on" in done.stderr and 'no job "nope"' in done.stderr
    assert said(up, "suspend", "two") == ["pytorchjob/two suspended"]
    until("it left", lambda: states(up, "-l", "sweep=lr")["two"] not in ("Running", "Evicting"))
    assert said(up, "resume", "two") == ["pytorchjob/two resumed"]
    until("it is held", lambda: states(up, "--state", "held") == {"two": "Held"})
    assert said(up, "jobs", "--state", "Held", "-o", "name") == ["pytorchjob/two"]
    assert said(up, "release", "-l", "sweep=lr") == ["pytorchjob/one released", "pytorchjob/two released"]
    assert said(up, "wait", "two", "--for", "started", "--timeout", "90")[-1] == "pytorchjob/two running"

    # A third finds no room. Its priority decides what the queue looks at first; it starts when a place is free.
    dry = run(up, "clone", "one", "third", "--set", "metadata.labels.sweep=wd", "--dry-run").stdout
    assert "name: third" in dry and "sweep: wd" in dry and "uid" not in dry
    clone = ("clone", "one", "third", "--set", "metadata.labels.sweep=wd")
    assert said(up, *clone) == ["pytorchjob/third created, as pytorchjob/one"]
    assert "already exists" in refusal(run(up, *clone))
    until("it is queued", lambda: states(up, "--queue", "root/a", "--state", "queued") == {"third": "Queued"})
    assert said(up, "priority", "7", "third") == ["pytorchjob/third has priority 7"]
    wide = said(up, "jobs", "--mine", "--sort", "priority", "-o", "wide")
    assert [line.split()[0] for line in wide] == ["NAME", "third", "one", "served", "two"]
    late = run(up, "wait", "third", "--for", "started", "--timeout", "1")
    assert late.returncode == 124 and "not started after 1 s: pytorchjob/third" in late.stderr
    assert said(up, "cancel", "-l", "sweep=lr") == ["pytorchjob/one cancelled", "pytorchjob/two cancelled"]
    assert run(up, "wait", "-l", "sweep=wd", "--for", "started", "--timeout", "90").returncode == 0
    assert said(up, "cancel", "third") == ["pytorchjob/third cancelled"]
    gone = run(up, "wait", "third", "--for", "deleted", "--timeout", "90")
    assert gone.returncode == 0, gone.stderr


def test_a_deployment_is_stopped_by_no_replicas_and_started_by_some(up: Up, tmp_path: Path) -> None:
    served = {**policy(), "metadata": {"name": "served", "namespace": "default"}}
    served["spec"] = {
        **served["spec"],
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
    }
    web = {**BATCH, "metadata": {"name": "web"}}
    assert run(up, "submit", written(tmp_path / "web.yaml", served, web)).returncode == 0
    scale = "/apis/apps/v1/namespaces/default/deployments/web/scale"

    def stands() -> str:
        return str((up.hub.find("/fleet/v1/jobs/default/Deployment/web") or {}).get("state"))

    for replicas, state in ((1, "Running"), (0, "Suspended"), (2, "Running")):
        up.hub.request("PATCH", scale, {"spec": {"replicas": replicas}}, content_type="application/merge-patch+json")
        until(f"it is {state} with {replicas}", lambda state=state: stands() == state)
    assert said(up, "delete", "deployment/web") and said(up, "delete", "propagationpolicy/served")


def test_what_cannot_be_done_is_said_in_one_line(up: Up) -> None:
    assert "Deployment" not in refusal(run(up, "suspend", "served"))
    assert "deployment/served cannot be suspended: its kind" in refusal(run(up, "suspend", "served"))
    assert "no replicas stop it" in refusal(run(up, "suspend", "served"))
    assert "name the jobs" in refusal(run(up, "hold"))
    assert "not both" in refusal(run(up, "hold", "one", "-l", "a=b"))
    assert "has the labels a=b" in refusal(run(up, "cancel", "-l", "a=b"))
    assert "is none of Unclaimed, Queued" in refusal(run(up, "jobs", "--state", "sleeping"))
    assert 'no queue "root/b"' in refusal(run(up, "jobs", "--queue", "root/b"))
    assert 'no member "cfx"; did you mean cfa?' in refusal(run(up, "jobs", "--member", "cfx"))
    assert "; did you mean PyTorchJob?" in refusal(run(up, "jobs", "--kind", "pytorchjbo"))
    assert "; did you mean pytorchjob?" in refusal(run(up, "delete", "pytorchjbo/one"))
    assert "is none of name, age" in refusal(run(up, "jobs", "--sort", "size"))


def test_the_states_are_those_of_the_api() -> None:
    assert set(STATES) == {str(state) for state in State} - {str(State.DELETED)}
    assert set(LIST.down) <= set(LIST.sorts)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("90m", "2026-01-01T22:30:00Z"),
        ("2d", "2025-12-31T00:00:00Z"),
        ("2026-01-01T08:00+08:00", "2026-01-01T00:00:00Z"),
    ],
)
def test_since_is_a_duration_or_a_time(text: str, at: str) -> None:
    assert moment(text, 1767312000.0) == at  # 2026-01-02T00:00:00Z


@pytest.mark.parametrize("text", ["yesterday", "2026-31-01", "0s", "-", "999999999d", "0001-01-01T00:00:00+14:00"])
def test_since_that_is_neither_is_refused_by_name(text: str) -> None:
    with pytest.raises(Failure, match=re.escape(f"--since {text}: is n")):
        moment(text, 1767312000.0)


def test_set_reads_json_else_text_and_makes_the_objects_on_the_way() -> None:
    body: dict[str, Any] = {"spec": {"containers": [{"image": "a"}]}}
    for text in ("spec.containers.0.image=b:1", "spec.runPolicy.suspend=true", "metadata.labels.stage=1.0x"):
        put(body, text)
    assert body == {
        "spec": {"containers": [{"image": "b:1"}], "runPolicy": {"suspend": True}},
        "metadata": {"labels": {"stage": "1.0x"}},
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("spec", "is not of the form"),
        ("a..b=1", "is not of the form"),
        ("=1", "is not of the form"),
        ("spec.containers.4.image=x", "spec.containers is a list of 1: 4 is no number"),
        ("spec.containers.x=1", "is a list of 1: x is no number"),
        ("kind.a=1", "kind has no fields"),
    ],
)
def test_set_names_the_step_that_is_not_there(text: str, why: str) -> None:
    with pytest.raises(Failure, match=why):
        put({"kind": "Job", "spec": {"containers": [{}]}}, text)


def test_the_version_is_that_of_the_program_and_of_the_hub(up: Up) -> None:
    done = run(up, "version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"fleet {running()}",
        f"hub {running()} (Kubernetes API v1.36.3, {up.hub.client.access.server})",
    ]
