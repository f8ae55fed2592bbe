"""What a user sees of each fault of a member, over the wire: on the unit, on the binding, on the Cluster, and in `fleet
explain`; and that the hub backs off.

One hub, and members that are broken in one way each. Refusals of single jobs are all forced in one member, by name.
"""

from __future__ import annotations

import asyncio
import copy
import math
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from api.access.auth import MASTERS, StaticTokens
from api.access.rbac import AllowAll
from api.engine.crd import GROUP, RESOURCE
from api.engine.status import StatusError
from api.objects.writing import User
from api.server.app import build_app
from api.transport.serve import Server
from fleet.bindings.conditions import condition
from fleet.bindings.failures import failures_of
from fleet.cli.main import app as fleet
from fleet.controllers.decide.manifestunits import unit_in
from fleet.kinds import INTERPRETERS, interpreter_of
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.cluster import NodeShape, SimulatedCluster, Tls
from fleet.values.kubeconfig.document import write
from fleet.values.ports import Body
from tests.controllers.world import policy, pytorchjob
from tests.simulate.declarations import DECLARED, WIDGET, widget
from tests.simulate.faulty import FaultyServer, faulty, refusal
from tests.simulate.whole import Whole, whole
from tests.testbed.pki import make_pki

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("bad-members")]

EXPLAINED_MOST_S = 60.0
QUOTA = 'pytorchjobs.kubeflow.org "quota" is forbidden: exceeded quota: jobs, requested: 1, used: 3, limited: 3'
HOOK = 'admission webhook "jobs.example.com" denied the request: no image of this registry'
RIGHTS = (
    'pytorchjobs.kubeflow.org "rights" is forbidden: User "hub" cannot patch resource "pytorchjobs" in API group'
    ' "kubeflow.org" in the namespace "default"'
)
HOOK_FAILS = 'Internal error occurred: failed calling webhook "jobs.example.com": connection refused'
PODS_QUOTA = 'Error creating: pods "pods-front-0" is forbidden: exceeded quota: gpus, requested: 1, used: 8, limited: 8'
ANSWERS = {  # of the member `plain` to a job that is applied there, by its name
    "quota": refusal(403, "Forbidden", QUOTA),
    "hook": refusal(400, "BadRequest", HOOK),
    "explained": refusal(400, "BadRequest", HOOK),
    "rights": refusal(403, "Forbidden", RIGHTS),
    "invalid": refusal(422, "Invalid", 'PyTorchJob "invalid" is invalid: spec.extra: Forbidden: unknown here'),
    "ancient": refusal(415, "UnsupportedMediaType", "the body of the request was in an unknown format"),
    "hook-fails": refusal(500, "InternalError", HOOK_FAILS),
    "odd": (200, {"hello": "world"}),
}


@dataclass(frozen=True)
class Waits:
    """A job that no member gets: the code of its unit, the Cluster's condition, a part of the text."""

    member: str
    code: str
    cluster: str
    says: str


@dataclass(frozen=True)
class Refused:
    """A job that its member does not take: the code of the refusal, a part of the text. `fails`: the member is tried
    for a while before it counts as refused."""

    code: str
    says: str
    member: str = "plain"
    kind: str = "PyTorchJob"
    fails: bool = False
    cluster: str = "Ready=ClusterReady"


WAITING = {
    "expired": Waits("expired", "MemberNotReady", "CredentialsRefused", "refuses the credentials in its kubeconfig"),
    "wrong-ca": Waits("wrong-ca", "MemberNotReady", "CertificateNotTrusted", "not of the CA in its kubeconfig"),
    "rubbish": Waits("rubbish", "MemberNotReady", "BadAnswers", "answer is not JSON"),
    "no-crd": Waits("no-crd", "NoMemberAllowed", "ClusterReady", "did not serve example.com/Widget"),
}
REFUSED = {
    "quota": Refused("MemberQuotaExceeded", QUOTA),
    "hook": Refused("AdmissionDenied", HOOK),
    "rights": Refused("MemberForbids", RIGHTS),
    "invalid": Refused("InvalidInMember", "spec.extra: Forbidden"),
    "ancient": Refused("MemberTooOld", "no server-side apply"),
    "taken": Refused("NameTaken", "exists and was not created by Fleet"),
    "hook-fails": Refused("MemberFails", HOOK_FAILS, fails=True),
    "odd": Refused("MemberFails", "is no object", fails=True),
    "old-crd": Refused(
        "KindNotServed", "does not serve Widget in example.com/v1, but in example.com/v1beta1", "old-crd", "Widget"
    ),
    "idle": Refused(
        "NoController", "is the controller of this kind running?", "idle", "Widget", cluster="KindsAvoided=NoController"
    ),
    "pods": Refused("MemberQuotaExceeded", PODS_QUOTA, "plain", "Widget"),
}


class Bad:
    """The hub, its members, and the server before the member `plain`."""

    def __init__(self, hub: Whole, plain: FaultyServer, inside: SimulatedCluster, kubeconfig: Path) -> None:
        self.hub, self.plain, self.inside, self.kubeconfig = hub, plain, inside, kubeconfig

    async def submit(self, name: str, kind: str, member: str) -> None:
        body = pytorchjob(name, workers=0) if kind == "PyTorchJob" else widget(name)
        placement = {**policy()["spec"]["placement"], "clusterAffinity": {"clusterNames": [member]}}
        selects = [{"apiVersion": body["apiVersion"], "kind": kind, "name": name}]
        await self.hub.create(policy(name, queue=True, resourceSelectors=selects, placement=placement, failover=None))
        await self.hub.create(body)

    def unit(self, name: str, kind: str) -> Body:
        return self.hub.see("QueueUnit", f"{name}-{kind.lower()}-rb-qu")

    def reason(self, name: str, kind: str) -> Body:
        return dict((self.unit(name, kind).get("status") or {}).get("reason") or {})

    def binding(self, name: str, kind: str) -> Body:
        return self.hub.see("ResourceBinding", f"{name}-{kind.lower()}")

    def scheduled(self, name: str, kind: str) -> str:
        """The reason why its binding is not placed."""
        told = condition(self.binding(name, kind), "Scheduled")
        return str(told["reason"]) if told is not None and told["status"] == "False" else ""

    def attempts(self, name: str, kind: str) -> int:
        return int(self.binding(name, kind)["metadata"].get("annotations", {}).get("fleet.io/attempt", "0"))

    async def explain(self, name: str) -> str:
        words = ["explain", name, "-n", "default", "--kubeconfig", str(self.kubeconfig)]
        done = await asyncio.to_thread(CliRunner().invoke, fleet, words)
        assert done.exit_code == 0, done.output
        return done.output


def _everything(status: int, body: Any) -> Any:
    return lambda method, path: (status, body)


def _of_plain(method: str, path: str) -> tuple[int, Any] | None:
    collection, _, name = path.rpartition("/")
    return ANSWERS.get(name) if method == "PATCH" and collection.endswith("/pytorchjobs") else None


async def _serve(cluster: SimulatedCluster, version: str) -> None:
    """The CRD of Widgets in the member."""
    body = copy.deepcopy(WIDGET)
    body["spec"]["versions"][0]["name"] = version
    await cluster.world.objects.create(cluster.world.registry.need(GROUP, RESOURCE), "", body, cluster.world.options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bad(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bad]:
    folder = tmp_path_factory.mktemp("bad")
    async with AsyncExitStack() as stack:
        stack.callback(INTERPRETERS.declare, ())
        hub = await stack.enter_async_context(
            whole(crds=[WIDGET], max_jobs=100, gang_whole_s=2.0, member_fails_s=2.0, members_read_s=1.0)
        )
        pki = make_pki(folder / "its")
        tls = Tls(pki.certificate, pki.key, make_pki(folder / "anothers").ca.read_bytes())
        clusters: dict[str, SimulatedCluster] = {}
        for name in ("expired", "wrong-ca", "rubbish", "no-crd", "old-crd", "idle", "plain"):
            shape, secured = NodeShape(1, 64), tls if name == "wrong-ca" else None
            clusters[name] = SimulatedCluster(name, [shape], pod_start_s=0.02, pod_stop_s=0.02, tls=secured)
            await clusters[name].start()
            stack.push_async_callback(clusters[name].stop)
        for name, version in (("old-crd", "v1beta1"), ("idle", "v1"), ("plain", "v1")):
            await _serve(clusters[name], version)
        faults = {
            "expired": _everything(*refusal(401, "Unauthorized", "Unauthorized")),
            "rubbish": _everything(200, "<html>Welcome</html>"),
            "plain": _of_plain,
        }
        before = {
            name: await stack.enter_async_context(faulty(clusters[name].url, fault)) for name, fault in faults.items()
        }
        inside = clusters["plain"].world
        taken = pytorchjob("taken", workers=0)
        await inside.objects.create(
            inside.registry.need("kubeflow.org", "pytorchjobs"), "default", taken, inside.options
        )
        await hub.create(DECLARED)
        await hub.until(lambda: interpreter_of("example.com/v1", "Widget"), "the declaration counts")
        for name, cluster in clusters.items():
            url = before[name].url if name in before else cluster.url
            await hub.join(name, cluster.kubeconfig.replace(cluster.url, url))
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(await _api(stack, hub))
        yield Bad(hub, before["plain"], clusters["plain"], kubeconfig)


async def _api(stack: AsyncExitStack, hub: Whole) -> str:
    """The hub's API over HTTP; a kubeconfig of it."""
    views = RestFace(hub.objects, hub.store, hub.registry, partial(unit_in, hub.store))
    app = build_app(
        hub.objects,
        hub.store,
        hub.registry,
        clock=hub.hub.clock,
        authorizer=AllowAll(),
        authenticator=StaticTokens({"secret": User("admin", (MASTERS,))}),
        mounts={PREFIX: views},
    )
    await app.start()
    stack.push_async_callback(app.stop)
    server = Server(app, host="127.0.0.1", port=0, close_streams=app.close_streams, metrics=app.metrics.edge)
    await server.start()
    stack.push_async_callback(server.stop)
    return write(f"http://127.0.0.1:{server.port}", name="hub", user="admin", token="secret")


@pytest.mark.parametrize("case", WAITING)
async def test_a_job_of_a_member_that_cannot_be_used_waits_and_says_why(bad: Bad, case: str) -> None:
    row, kind = WAITING[case], "Widget" if case == "no-crd" else "PyTorchJob"
    await bad.submit(case, kind, row.member)

    def ready() -> Body:
        return condition(bad.hub.see("Cluster", row.member), "Ready") or {}

    await bad.hub.until(lambda: ready().get("reason") == row.cluster, f"{row.cluster}: {ready()}")
    await bad.hub.until(lambda: row.says in str(bad.unit(case, kind).get("status")), f"{case}: {bad.unit(case, kind)}")
    assert bad.reason(case, kind)["code"] == row.code
    await bad.hub.until(lambda: bad.scheduled(case, kind) == "NoClusterFit", "its binding says so")
    assert bad.attempts(case, kind) == 0


@pytest.mark.parametrize("case", REFUSED)
async def test_a_job_that_its_member_does_not_take_says_why_and_backs_off(bad: Bad, case: str) -> None:
    row, began = REFUSED[case], time.monotonic()
    await bad.submit(case, row.kind, row.member)
    if case == "pods":
        await _make_no_pods(bad, case)
    if row.fails:
        await bad.hub.until(lambda: bad.reason(case, row.kind).get("code") == row.code, "the unit says so at once")
        told = condition(bad.binding(case, row.kind), "FullyApplied")
        assert told is None or (told["status"], told["reason"]) == ("False", row.code)

    def backs_off() -> bool:
        reason = bad.reason(case, row.kind)
        said = reason.get("code") == "BackOff" and reason["numbers"].get("cause") == row.code
        return said and bad.scheduled(case, row.kind) == row.code

    await bad.hub.until(backs_off, f"{case}: {bad.unit(case, row.kind).get('status')}")
    evicted = condition(bad.unit(case, row.kind), "Evicted")
    assert evicted is not None and evicted["reason"] == row.code
    failures = failures_of(bad.binding(case, row.kind))
    assert {failure.reason for failure in failures} == {row.code}
    assert row.says in failures[-1].message
    type_, _, reason = row.cluster.partition("=")
    said = condition(bad.hub.see("Cluster", row.member), type_)
    assert said is not None and (said["status"], said["reason"]) == ("True", reason)
    # The n-th attempt comes at the earliest after 1 + 2 + 4 + … seconds of back-off.
    most = 2 + math.log2(1 + time.monotonic() - began)
    assert bad.attempts(case, row.kind) <= most
    if row.fails:
        patches = [path for method, path in bad.plain.asked if method == "PATCH" and path.endswith(f"/{case}")]
        assert len(patches) <= 10 * most


async def test_a_kind_that_nobody_acts_on_in_a_member_is_kept_from_it_for_a_while(bad: Bad) -> None:
    if "avoidedKinds" not in bad.hub.see("Cluster", "idle").get("status", {}):  # this test alone
        await bad.submit("first", "Widget", "idle")
    await bad.hub.until(
        lambda: bad.hub.see("Cluster", "idle").get("status", {}).get("avoidedKinds"), "the Cluster says so"
    )
    await bad.submit("second", "Widget", "idle")
    await bad.hub.until(lambda: bad.reason("second", "Widget").get("code") == "NoMemberAllowed", "it waits")
    assert "1 member(s) had no controller that acts on example.com/Widget" in str(
        bad.unit("second", "Widget")["status"]["message"]
    )
    assert bad.attempts("second", "Widget") == 0


async def _make_no_pods(bad: Bad, name: str) -> None:
    """A controller that takes the job up, and whose pods the member's quota refuses."""
    world = bad.inside.world
    kind = world.registry.need("example.com", "widgets")
    stored: Any = await bad.hub.until(lambda: _there(bad, name), "the job is in its member")
    await world.change_status(kind, stored, {"phase": "Starting"})
    meta = {"name": f"{name}.1", "namespace": "default"}
    involved = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": name,
        "namespace": "default",
        "uid": stored["metadata"]["uid"],
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": meta,
        "involvedObject": involved,
        "type": "Warning",
        "reason": "FailedCreate",
        "message": PODS_QUOTA,
        "lastTimestamp": world.now(),
    }
    await world.objects.create(world.registry.need("", "events"), "default", event, world.options)


def _there(bad: Bad, name: str) -> Body | None:
    found = bad.inside.world.store.scan("example.com", "widgets")
    return next((stored.body for stored in found if stored.key.name == name), None)


async def test_fleet_explain_names_the_refusal(bad: Bad) -> None:
    await bad.submit("explained", "PyTorchJob", "plain")
    began, said = time.monotonic(), ""
    # The first back-off lasts a second, and the command may read the job while its next attempt is under way.
    while "cause: AdmissionDenied" not in said and time.monotonic() - began < EXPLAINED_MOST_S:
        await bad.hub.until(lambda: bad.reason("explained", "PyTorchJob").get("code") == "BackOff", "it backs off")
        said = await bad.explain("explained")
    assert HOOK in said and "cause: AdmissionDenied" in said


async def test_a_name_too_long_for_the_labels_made_of_it_is_refused_by_the_hub(bad: Bad) -> None:
    with pytest.raises(StatusError) as refused:
        await bad.hub.create(pytorchjob("x" * 64, workers=0))
    assert refused.value.code == 422
    assert "metadata.name" in str(refused.value) and "make it" in str(refused.value)
    assert bad.hub.see("PyTorchJob", "x" * 64) == {}
