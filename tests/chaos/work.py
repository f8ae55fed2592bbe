"""Jobs to hurt the hub with, and what must hold of them in the end."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.client import ALL_JOBS, BINDINGS, CLUSTERS, JOBS, POLICIES, TREES, UNITS, Client, Refused
from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, pytorchjob, quota_tree

Body = dict[str, Any]
COPIES = "/apis/kubeflow.org/v1/pytorchjobs"
PODS = "/api/v1/pods"


def set_up(client: Client, *leaves: Body, policy: Body | None = None) -> None:
    """The namespaces of the leaves, each with a queueing policy, and the tree."""
    for leaf in leaves:
        for namespace in leaf["namespaces"]:
            client.post("/api/v1/namespaces", namespace_of(namespace))
            client.post(POLICIES.format(namespace), policy or gang_policy(queue=True))
    client.post(TREES, quota_tree(*leaves))


def namespace_of(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@dataclass
class Submitter:
    """Submits jobs from a thread, whatever happens to the API. `acknowledged`: those that the hub answered 201 for;
    a create without an answer is tried again, so it may be answered 409 the second time: it is there all the same."""

    world: World
    jobs: Sequence[tuple[str, Body]]  # namespace, manifest
    every_s: float = 0.1
    acknowledged: list[str] = field(default_factory=list)
    problem: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="submitter", daemon=True)
        self._thread.start()

    def wait(self, within_s: float = 120) -> None:
        self._thread.join(within_s)
        assert not self._thread.is_alive(), "not everything could be submitted"
        assert not self.problem, self.problem

    def stop(self) -> None:
        """Submit no more."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        client = Client(self.world.hub.kubeconfig, timeout_s=5)
        for namespace, job in self.jobs:
            if self._stop.is_set() or not self._submit(client, namespace, job):
                return
            time.sleep(self.every_s)

    def _submit(self, client: Client, namespace: str, job: Body) -> bool:
        try:
            done = until_answered(lambda: client.post(JOBS.format(namespace), job), self._stop, fine=(409,))
        except Refused as refused:
            self.problem = str(refused)
            return False
        if done is not None:
            self.acknowledged.append(f"{namespace}/{job['metadata']['name']}")
        return done is not None


def until_answered(ask: Callable[[], Body], stop: threading.Event, fine: Sequence[int] = ()) -> Body | None:
    """Ask until the hub answers, whatever happens to it; None once `stop` is set. A refusal whose code is `fine` counts
    as success, with its Status: an ask that was not answered may have been heard. Raises Refused for all but 429 and
    5xx."""
    while not stop.is_set():
        try:
            return ask()
        except Refused as refused:
            if refused.code in fine:
                return refused.status
            if refused.code not in (429, 500, 503, 504):
                raise
        except (httpx.HTTPError, ValueError):  # no answer, or half of one
            pass
        stop.wait(0.2)
    return None


class Copies:
    """Looks into the members all the time: how many live copies each job has at once, and the copies it ever had."""

    def __init__(self, world: World, every_s: float = 0.15) -> None:
        self._world, self._every_s = world, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copies", daemon=True)
        self.ever: dict[str, set[str]] = defaultdict(set)  # job -> uids of its copies
        self.double: list[str] = []
        self.looks = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        client = Client(self._world.hub.kubeconfig, timeout_s=5)
        while not self._stop.wait(self._every_s):
            try:
                found = [(m, body) for m in self._world.members for body in client.in_member(m, COPIES)]
            except (Refused, httpx.HTTPError, ValueError):
                continue
            self.looks += 1
            here: dict[str, list[str]] = defaultdict(list)
            for member, body in found:
                name = name_of(body)
                self.ever[name].add(body["metadata"]["uid"])
                here[name].append(member)
            self.double += [f"{name} in {', '.join(where)}" for name, where in here.items() if len(where) > 1]


def name_of(body: Body) -> str:
    return f"{body['metadata']['namespace']}/{body['metadata']['name']}"


def state_of(job: Body) -> str:
    conditions = (job.get("status") or {}).get("conditions") or []
    return next((c["type"] for c in reversed(conditions) if c["status"] == "True"), "")


def states(client: Client) -> dict[str, str]:
    """Every job of the hub and its state; nothing while the hub does not answer."""
    try:
        return {name_of(job): state_of(job) for job in client.items(ALL_JOBS)}
    except (Refused, httpx.HTTPError):
        return {}


def expect_all(world: World, client: Client, names: Iterable[str], state: str, within_s: float = 120) -> None:
    """Fails unless all these jobs come into one state in time."""
    wanted = set(names)

    def missing() -> dict[str, str]:
        found = states(client)
        return {name: found.get(name, "not there") for name in wanted if found.get(name) != state}

    end = time.monotonic() + within_s
    while left := missing():
        assert time.monotonic() < end, f"not {state} after {within_s:g} s: {left}\n{details(client, left)}"
        time.sleep(0.2)


def details(client: Client, names: Iterable[str]) -> str:
    """The hub's words on some jobs, for the reader of a failed test."""
    lines = []
    wanted = set(list(names)[:3])
    for path in (ALL_JOBS, BINDINGS, UNITS):
        for body in client.items(path):
            job = body.get("spec", {}).get("resource") or body
            consumer = (body.get("spec", {}).get("consumerRef") or {}).get("name", "").removesuffix("-pytorchjob")
            name = f"{body['metadata']['namespace']}/{consumer or job.get('name') or body['metadata']['name']}"
            if name in wanted:
                lines.append(f"{path.rsplit('/', 1)[1]} {name}: {body.get('status')} {body['spec'].get('clusters')}")
    lines += [f"cluster {c['metadata']['name']}: {c['status'].get('conditions')}" for c in client.items(CLUSTERS)]
    return "\n".join(lines)


def delete_all(world: World, client: Client) -> None:
    """Delete every job; nothing may be left of any of them, on the hub or in a member (I6)."""
    for job in client.items(ALL_JOBS):
        client.delete(f"{JOBS.format(job['metadata']['namespace'])}/{job['metadata']['name']}")
    world.until("no binding, no unit", lambda: not client.items(BINDINGS) and not client.items(UNITS))
    for member in world.members:
        assert client.in_member(member, COPIES) == []
        world.until(f"no pod in {member}", lambda m=member: not client.in_member(m, PODS))


def short_jobs(
    namespaces: Sequence[str], count: int, *, run_for: str = "1s", workers: int = 1
) -> list[tuple[str, Body]]:
    return [
        (namespaces[n % len(namespaces)], pytorchjob(f"job-{n:03}", workers=workers, run_for=run_for))
        for n in range(count)
    ]
