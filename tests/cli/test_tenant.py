"""The command line for people with few rights: one edits in her namespace, another looks at two; both by kubeconfig."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.wellknown.readyroles import role_with
from tests.cli.hub import Up, fleet, refusal, until
from tests.cli.manifests import GPU, TREE, binding, job, namespace, policy, written

LEAVES = [
    {"name": "vision", "max": {GPU: 16}, "namespaces": ["team-a"]},
    {"name": "speech", "max": {GPU: 16}, "namespaces": ["team-b"]},
]
SECRETS = ("team-b", "secret", "cfa")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """16 GPUs in one member and in the whole quota: each team has one job that runs and one that waits."""
    running = Up(tmp_path_factory.mktemp("tenant") / "hub", "--members", "1", "--nodes", "2", "--gpus", "8")
    limits = {GPU: 16}
    quota = {**TREE, "spec": {"root": {"name": "root", "max": limits, "min": limits, "children": LEAVES}}}
    everywhere = {**policy(), "kind": "ClusterPropagationPolicy"}
    try:
        set_up = (
            namespace("team-a"),
            namespace("team-b"),
            quota,
            everywhere,
            binding("alice", "edit", "team-a"),
            binding("bob", "view", "team-a"),
            binding("bob", "view", "team-b"),
            job("one", namespace="team-a"),
            job("secret1", namespace="team-b"),
        )
        where = ("--data-dir", str(running.folder))
        done = fleet("submit", written(running.folder / "a.yaml", *set_up), *where)
        assert done.returncode == 0, done.stderr
        until("both run", lambda: fleet("jobs", "-A", *where).stdout.count("Running") == 2)
        later = (job("two", namespace="team-a"), job("secret2", namespace="team-b"))
        assert fleet("submit", written(running.folder / "b.yaml", *later), *where).returncode == 0
        until("both wait", lambda: str(running.hub.find("/fleet/v1/snapshot")).count("'enqueued_at'") >= 4)
        until("both wait for a reason", lambda: fleet("jobs", "-A", *where).stdout.count("unused quota") == 2)
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def kubeconfig(up: Up, user: str, *words: str) -> str:
    path = up.folder / f"{user}.kubeconfig"
    if not path.exists():
        made = fleet("token", "create", user, "-o", "kubeconfig", "--data-dir", str(up.folder), *words)
        assert made.returncode == 0, made.stderr
        path.write_text(made.stdout)
        until("the token is known", lambda: fleet("jobs", "-A", KUBECONFIG=str(path)).returncode == 0)
    return str(path)


def as_alice(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    return fleet(*words, KUBECONFIG=kubeconfig(up, "alice", "-n", "team-a"))


def as_bob(up: Up, *words: str) -> subprocess.CompletedProcess[str]:
    return fleet(*words, KUBECONFIG=kubeconfig(up, "bob"))


def test_jobs_are_those_that_the_user_may_list_and_it_is_said_that_others_are_left_out(up: Up) -> None:
    mine = as_alice(up, "jobs", "-A", "-o", "json")
    assert {(line["namespace"], line["name"]) for line in json.loads(mine.stdout)} == {
        ("team-a", "one"),
        ("team-a", "two"),
    }
    assert mine.stderr == "jobs that you may not list are left out\n"
    assert as_alice(up, "jobs").stderr == ""  # her context's namespace
    assert len(json.loads(as_bob(up, "jobs", "-A", "-o", "json").stdout)) == 4
    assert refusal(as_bob(up, "jobs")).endswith('in the namespace "default" (fleet jobs -A lists what you may list)')


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (("jobs", "--kind", "PyTorchJob", "-n", "team-b"), "the role viewer may list pytorchjobs (fleet jobs -A"),
        (("clusters",), "the role viewer may list clusters"),
        (("priority", "5", "two"), "the role queue-admin may patch queueunits"),
    ],
)
def test_a_refusal_names_the_verb_and_the_role_that_has_it(up: Up, words: tuple[str, ...], role: str) -> None:
    said = refusal(as_alice(up, *words))
    assert 'User "alice" cannot ' in said and role in said
    assert role_with("patch", "cluster.karmada.io", "clusters") == "fleet-admin"
    assert role_with("get", "", "secrets") == ""


def test_queues_are_those_of_her_namespaces_and_what_is_above_them(up: Up) -> None:
    mine = as_alice(up, "queues", "-o", "json")
    assert [line["queue"] for line in json.loads(mine.stdout)] == ["root", "root/vision"]
    assert mine.stderr.endswith("are left out\n") and not [word for word in SECRETS if word in mine.stdout]


def test_a_job_of_hers_is_explained_without_a_name_of_anybody_elses(up: Up) -> None:
    for words in (("explain", "two"), ("explain", "pytorchjob/two", "-o", "json")):
        shown = as_alice(up, *words)
        assert shown.returncode == 0 and "secret" not in shown.stdout and "team-b" not in shown.stdout, shown
    assert as_bob(up, "explain", "secret2", "-n", "team-b").returncode == 0
    assert "there is one in team-b" in refusal(as_bob(up, "explain", "secret2"))
    assert "there is one" not in refusal(as_alice(up, "explain", "secret2", "-n", "team-b"))


def test_what_if_counts_the_jobs_of_others(up: Up, tmp_path: Path) -> None:
    shown = as_alice(up, "what-if", "--remove", "one", "--remove", "two", "-o", "json")
    found = json.loads(shown.stdout)
    assert found["others"] == [{"leaf": "root/speech", "change": "starts", "jobs": 1, "gpus": 8}]
    assert not [word for word in SECRETS[:2] if word in shown.stdout]  # her own jobs' member she knows
    table = as_alice(up, "what-if", "--remove", "one", "--remove", "two").stdout
    assert "not yours: 1 job of root/speech (8 GPUs): starts" in table
    file = written(tmp_path / "job.yaml", job("three"))
    there = written(tmp_path / "there.yaml", job("one"))
    said = f'fleet: --submit {there}: pytorchjobs.kubeflow.org "one" already exists'
    assert refusal(as_alice(up, "what-if", "--hold", "two", "--submit", there)) == said
    asked = as_alice(up, "what-if", "--submit", file, "--hold", "two", "-o", "json")
    assert "team-a/three" in {row["job"] for row in json.loads(asked.stdout)["rows"]}, asked.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--drain", "cfa"), "fleet: --drain: edits of members and of the whole tree take the right"),
        (("--remove", "secret1"), "fleet: --remove secret1: no job team-a/secret1 waits or runs that you may see"),
        (
            ("--remove", "team-b/secret1"),
            "--remove team-b/secret1: no job team-b/secret1 waits or runs that you may see",
        ),
        (("--remove", "one", "--set", f"root/speech.max.{GPU}=1"), f"--set root/speech.max.{GPU}=1: there is no queue"),
        (("--priority", "two"), "fleet: --priority two: is not of the form JOB=5"),
        (("--hold", "two", "--runs-for", "1h"), "--runs-for and --no-times take the right"),
        ((), "fleet: nothing to try"),
    ],
)
def test_what_she_may_not_ask_is_said_with_the_option(up: Up, words: tuple[str, ...], said: str) -> None:
    assert said in refusal(as_alice(up, "what-if", *words))
