"""What a hub has before another release takes it over, and what must be so afterwards.

One job is over, one runs, one waits for quota; a member behind an agent runs one more, where there is one. Afterwards
each job is where it was, with the copies and the pods that it had: nothing was started again, and nothing runs twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chaos.client import JOBS, POLICIES, Client, Refused
from tests.chaos.work import namespace_of, set_up
from tests.cli.hub import until
from tests.e2e.manifests import gang_policy, leaf, pytorchjob

Seen = dict[str, Any]
SHAPE = ("--members", "2", "--nodes", "1")
MEMBERS = ("cfa", "cfb")
EDGE = "edge"  # the member behind an agent
STATES = {"over": "Succeeded", "runs": "Running", "waits": "Queued"}
# Records may be older than a hub keeps them.
KEPT = ("--finished-job-ttl-seconds", "0", "--history-days", "0", "--usage-days", "0")
COPIES = "/apis/kubeflow.org/v1/pytorchjobs"
OF_A_POD = ("nodeName", "phase", "startTime")


def begin(client: Client, *, edge: bool) -> None:
    """Submit the jobs, and wait until each is where it stays."""
    set_up(client, leaf("team", "team", **{"nvidia.com/gpu": 8}))
    client.post(JOBS.format("team"), pytorchjob("over", workers=0, run_for="1s"))
    until("a job is over", lambda: states(client) == {"over": "Succeeded"})
    client.post(JOBS.format("team"), pytorchjob("runs", workers=1, gpus=3))
    client.post(JOBS.format("team"), pytorchjob("waits", workers=1, gpus=2))
    expected = dict(STATES)
    if edge:
        client.post("/api/v1/namespaces", namespace_of("far"))
        there = {"clusterAffinity": {"clusterNames": [EDGE]}}
        client.post(POLICIES.format("far"), gang_policy(placement=there))
        client.post(JOBS.format("far"), pytorchjob("far", workers=1))
        expected["far"] = "Running"
    until("each job is where it stays", lambda: states(client) == expected)
    until("the history knows the job that is over", lambda: bool(look(client, edge=edge)["history"]))


def go_on(client: Client, before: Seen, *, edge: bool) -> None:
    """All is as it was `before`, and new jobs start beside it."""
    until("the hub reaches its members", lambda: reached(client, edge=edge))
    found = look(client, edge=edge)
    assert_same(found, before)
    assert {what: len(found[what]) for what in before} == {what: len(before[what]) for what in before}
    names = {"team": "new", **({"far": "newfar"} if edge else {})}
    for namespace, name in names.items():
        client.post(JOBS.format(namespace), pytorchjob(name, workers=0, run_for="1s"))
    until("the new jobs are over", lambda: all(states(client).get(name) == "Succeeded" for name in names.values()))
    assert_same(look(client, edge=edge), before)


def states(client: Client) -> dict[str, str]:
    return {job["name"]: job["state"] for job in client.items("/fleet/v1/jobs")}


def look(client: Client, *, edge: bool) -> Seen:
    """The jobs, their copies and their pods as far as another release must leave them, and the history of the past."""
    members = (*MEMBERS, EDGE) if edge else MEMBERS
    listed = [
        (member, path, body)
        for member in members
        for path in (COPIES, "/api/v1/pods")
        for body in client.in_member(member, path)
    ]
    return {
        "jobs": {
            job["name"]: {key: job[key] for key in ("state", "member", "attempt", "created", "queue")}
            for job in client.items("/fleet/v1/jobs")
        },
        "uids": {name(body): body["metadata"]["uid"] for body in client.items(COPIES)},
        "copies": {f"{member} {name(one)}": one["metadata"]["uid"] for member, path, one in listed if path == COPIES},
        "pods": {f"{member} {name(one)}": pod(one) for member, path, one in listed if path != COPIES},
        "history": {job["name"]: job for job in client.items("/fleet/v1/history") if job["ended"]},
    }


def reached(client: Client, *, edge: bool) -> bool:
    try:
        look(client, edge=edge)
    except Refused:
        return False
    return True


def pod(body: Mapping[str, Any]) -> Seen:
    known = {**body["spec"], **body["status"]}
    restarts = sum(one["restartCount"] for one in known.get("containerStatuses", []))
    return {"uid": body["metadata"]["uid"], "restarts": restarts, **{key: known.get(key) for key in OF_A_POD}}


def name(body: Mapping[str, Any]) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def assert_same(now: Seen, before: Seen) -> None:
    """All that was there before is as it was. There may be more, and a release may say more of a job."""
    changed = [
        f"{what} {key}: {was} became {now[what].get(key)}"
        for what in before
        for key, was in before[what].items()
        if was != (_part(now[what].get(key), was) if isinstance(was, dict) else now[what].get(key))
    ]
    assert changed == [], "\n".join(changed)


def _part(one: Seen | None, like: Seen) -> Seen | None:
    """The fields that the other one has."""
    return one and {field: one.get(field) for field in like}


def kept(folder: Path, before: Seen) -> bool:
    """Whether the files of the hub's own members have the pods as they were seen: a kill costs what is not in them."""
    for one in before["pods"]:
        member, _, named = one.partition(" ")
        if member not in MEMBERS:
            continue
        file = folder / "members" / f"{member}.objects"
        about = f'["","pods","{named.replace("/", chr(34) + "," + chr(34))}",'
        lines = file.read_text().splitlines() if file.exists() else []
        if not any(line.startswith(about) and f'"phase":"{before["pods"][one]["phase"]}"' in line for line in lines):
            return False
    return True
