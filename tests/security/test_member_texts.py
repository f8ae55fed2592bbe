"""Texts of a member become one printable line of at most 500 characters, wherever they enter the hub."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.model.amounts import NOTHING
from fleet.members.connection import ANSWER_BYTES_MAX, Connection, TooLarge, Unreachable
from fleet.members.discovery import Discovery, ServedResource
from fleet.members.dispatch import Dispatcher, outcome_of
from fleet.members.dispatchedobjects import STATUS_BYTES_MAX, DispatchedObjects
from fleet.members.identity import read_identity
from fleet.members.index import ByBinding
from fleet.members.inventory import read_pod
from fleet.members.kubeconfig import read_kubeconfig
from fleet.members.members import ActOutcome, ActResult, MemberChange
from fleet.members.nodes import read_node
from fleet.members.texts import LINE_MAX, one_line
from fleet.values.ports import Body, Key
from tests.security.member_objects import NODE, POD

EVIL = "\x1b[2J" + "first\nsecond\u202e" * 2000
JOBS = ServedResource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", True, frozenset({"list", "watch"}))


def fit(text: str) -> bool:
    return 0 < len(text) <= LINE_MAX and text.isprintable()


@given(st.text(max_size=3000))
def test_a_line_is_printable_and_short_and_stays_as_it_is(said: str) -> None:
    line = one_line(said)
    assert len(line) <= LINE_MAX and (line.isprintable() or not line) and one_line(line) == line
    if said.isprintable() and len(said) <= LINE_MAX:
        assert line == said


@asynccontextmanager
async def answering(status: int, content: bytes) -> AsyncIterator[Connection]:
    """A connection with a server that gives every request this answer."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=content, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = "http://{}:{}".format(*runner.addresses[0][:2])
    kubeconfig = (
        f"current-context: m\nclusters: [{{name: m, cluster: {{server: '{url}'}}}}]\n"
        "users: [{name: m, user: {token: t}}]\ncontexts: [{name: m, context: {cluster: m, user: m}}]\n"
    )
    try:
        async with aclosing(Connection(read_kubeconfig(kubeconfig))) as connection:
            yield connection
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("prose", [False, True], ids=["status", "prose"])
async def test_a_refusal_of_24_megabytes_is_one_line(prose: bool) -> None:
    said = EVIL + "x" * (24 << 20)
    content = said.encode() if prose else orjson.dumps({"kind": "Status", "message": said})
    async with answering(422, content) as connection:
        answer = await connection.request("PATCH", "/x", body={})
        assert len(orjson.dumps(answer.body)) < LINE_MAX * 20
        outcome = outcome_of(answer)
        assert outcome.did is ActResult.REFUSED and fit(outcome.message) and "first" in outcome.message
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b", "uid": "c"}}
        refused = await Dispatcher(connection).delete(JOBS, body, "hub")
        assert refused.did is ActResult.REFUSED and fit(refused.message)


async def test_an_answer_without_an_end_is_not_read_on() -> None:
    async with answering(200, b" " * (ANSWER_BYTES_MAX + 1)) as connection:
        with pytest.raises(TooLarge, match="larger than 16 MiB"):
            await connection.request("GET", "/x")


async def test_events_and_identities_are_one_line() -> None:
    content = orjson.dumps({"items": [{"message": EVIL}], "metadata": {"uid": EVIL}})
    async with answering(200, content) as connection:
        assert fit(await Dispatcher(connection).warning(POD))
        assert fit((await read_identity(connection)).uid)


async def test_names_that_are_none_are_no_kinds() -> None:
    def group(resource: str, kind: str = "Good") -> Body:
        rows = [{"resource": resource, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list"]}]
        return {"metadata": {"name": "x.io"}, "versions": [{"version": "v1", "resources": rows}]}

    groups = [group("goods"), group("a/../b"), group("x" * 300), group("bads", EVIL)]
    async with answering(200, orjson.dumps({"kind": "APIGroupDiscoveryList", "items": groups})) as connection:
        catalogue = await Discovery(connection).look()
    assert catalogue.kinds == {"x.io/Good"}


def test_an_outcome_and_an_unreachable_member_say_one_line() -> None:
    assert fit(ActOutcome(ActResult.CONFLICT, f"exists and belongs to hub {EVIL}").message)
    assert fit(str(Unreachable(f"cannot list: {EVIL}")))


def test_pods_and_nodes_keep_lines() -> None:
    pod = copy.deepcopy(POD)
    pod["status"] = {
        "phase": "Failed",
        "reason": EVIL,
        "message": EVIL,
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": EVIL}],
        "containerStatuses": [
            {"name": EVIL, "state": {"terminated": {"exitCode": 1, "reason": EVIL}}} for _ in range(1000)
        ],
    }
    view = read_pod("cfa", pod, NOTHING)
    assert all(map(fit, (view.reason, view.failed_with, view.disruption, *(reason for _, reason in view.exits))))
    assert len(view.exits) == 64
    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": EVIL, "message": EVIL}]}
    assert fit(read_pod("cfa", pod, NOTHING).reason)
    node = copy.deepcopy(NODE)
    node["metadata"]["labels"] = {"zone": "a", "evil": EVIL, EVIL: "x"}
    node["spec"]["taints"] = [{"key": EVIL, "value": EVIL, "effect": "NoSchedule"}]
    node["status"]["allocatable"] = {"cpu": "8", EVIL: "1", **{f"made-up/{n}": "1" for n in range(10_000)}}
    read = read_node(node)
    assert read.pool[0] == (("zone", "a"),) and all(fit(t.key) and fit(t.value) for t in read.pool[1])
    assert read.allocatable["cpu"] == 8000 and len(read.allocatable.items_) <= 128
    node["metadata"]["name"] = EVIL
    with pytest.raises(ValueError, match="is no name"):
        read_node(node)


def quiet(_: MemberChange) -> None: ...


def test_the_status_of_a_copy_has_lines_for_people_and_an_end() -> None:
    copies = ByBinding[Body]()
    dispatched = DispatchedObjects("cfa", "hub", copies, ByBinding(), quiet)
    job: Body = {"metadata": copy.deepcopy(POD["metadata"]), "spec": {}}
    job["status"] = {
        "conditions": [{"type": "Failed", "status": "True", "reason": EVIL, "message": EVIL}],
        "applicationState": {"errorMessage": EVIL},
        "jobs": [{"data": "a: 1\nb: 2\n"}],
    }
    dispatched.put(JOBS, job)
    kept = dispatched.find(Key("kubeflow.org", "pytorchjobs", "default", "good"))
    assert kept is not None
    assert fit(kept["status"]["conditions"][0]["message"]) and fit(kept["status"]["conditions"][0]["reason"])
    assert fit(kept["status"]["applicationState"]["errorMessage"])
    assert kept["status"]["jobs"] == [{"data": "a: 1\nb: 2\n"}]
    larger = copy.deepcopy(job)
    larger["metadata"]["resourceVersion"] = "9"
    larger["status"] = {"conditions": [{"type": "x" * 1000}] * (STATUS_BYTES_MAX // 1000)}
    dispatched.put(JOBS, larger)
    kept = dispatched.find(Key("kubeflow.org", "pytorchjobs", "default", "good"))
    assert kept is not None and kept["status"] == {}
