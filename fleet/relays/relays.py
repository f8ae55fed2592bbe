"""The answers: a pod that only a member has, its log, and exec, attach and port-forward to it.

The right of the user is one in the hub's namespace; the hub's account acts in the member. A member's refusal is shown
as one line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial

import orjson
from prometheus_client import CollectorRegistry, Gauge

from api.engine.status import StatusError
from api.objects.hooking import may_connect
from api.objects.objects import Objects
from api.outgoing import OutgoingClient
from api.server.lists import show
from api.wire.http import Answer, Request, Stream, json_response
from api.wire.negotiation import accepted_form
from api.wire.routing import Route
from api.wire.servedkind import find
from fleet.members.kubeconfig import Dial
from fleet.relays import jobpods
from fleet.relays.asking import KINDS, options_of, query_of, switch_of
from fleet.relays.carrying import Carrier
from fleet.relays.clients import MemberAnswer, MemberClients
from fleet.relays.gpus import Gpus
from fleet.relays.joblog import JobPods
from fleet.relays.places import RelayLimits, places_of
from fleet.relays.pods import MemberPod, MemberPods
from fleet.relays.switching import refusal, relayed, switched
from fleet.values.ports import Body, Key, StoredObject

LOG_S = 6 * 3600.0  # of one followed log
LOOKUPS_AT_ONCE = 256  # requests to one member beside the relays
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
Handler = Callable[[Route, Request], Awaitable[Answer]]


class Relays:
    """`aclose` when the API stops. `dial` reaches members that only their agents reach, `outgoing` a Prometheus outside
    the members."""

    def __init__(
        self,
        objects: Objects,
        hub_id: str,
        *,
        dial: Dial | None = None,
        limits: RelayLimits | None = None,
        outgoing: OutgoingClient | None = None,
    ) -> None:
        self._objects, self._limits, self._hub_id = objects, limits or RelayLimits(), hub_id
        most = self._limits.relays + LOOKUPS_AT_ONCE
        self.clients = MemberClients(objects.store, dial=dial, most=most)
        self.pods = MemberPods(objects.store, objects.registry, self.clients, hub_id)
        self._jobs = JobPods(objects.store, objects.registry, self.pods, hub_id)
        self._gpus = Gpus(objects.store, self.clients, objects.clock, outgoing)
        self.places = places_of(self._limits)

    async def aclose(self) -> None:
        await self._gpus.aclose()
        await self.clients.aclose()

    def show(self, registry: CollectorRegistry) -> None:
        """As a metric."""
        gauge = Gauge("fleet_api_relays", "Open relays to pods of members.", registry=registry)
        gauge.set_function(lambda: len(self.places))

    def routes(self) -> dict[tuple[str, str, str], Handler]:
        """For `build_app(extra_routes=…)`."""
        connects: dict[tuple[str, str, str], Handler] = {("", "pods", name): self.connect for name in KINDS}
        reads: dict[tuple[str, str, str], Handler] = {
            ("", "pods", ""): self.pod,
            ("", "pods", "log"): self.log,
            ("*", "*", "log"): self.job_log,
            ("*", "*", "pods"): self.job_pods,
        }
        return {**connects, **reads}

    # -- reading

    async def pod(self, route: Route, request: Request) -> Answer:
        """A pod that is not stored on the hub, under the name that it was asked for."""
        found = await self.pods.find(route.namespace, route.name)
        served = find(self._objects.registry, "", "v1", "pods")
        assert served is not None
        body = _outward(found.body, route.name)
        revision = await self._objects.store.revision(alone=request.alone)
        key = Key("", "pods", route.namespace, route.name)
        stored = StoredObject(key, body["metadata"]["uid"], revision, orjson.dumps(body), body)
        return await show(served, stored, request, accepted_form(request, served), self._objects.clock.now())

    async def log(self, route: Route, request: Request) -> Answer:
        options = options_of(request, "log")
        return await self._log(request, options, partial(self.pods.find, route.namespace, route.name))

    async def job_log(self, route: Route, request: Request) -> Answer:
        """The log of a pod of a job, which the query names, or of its first."""
        options = options_of(request, "log")
        return await self._log(request, options, partial(self._jobs.find, route, request.query))

    async def job_pods(self, route: Route, request: Request) -> Answer:
        """All pods of a job; with `usage=true` what they use."""
        if request.method != "GET":
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        place = self.places.take(request.user.name)
        try:
            ranked = await self._jobs.each(route, request.query)
            found = [one.hub_pod for one in ranked]
            asked = request.flag("usage")
            if not asked:
                return json_response({"items": jobpods.pod_records(ranked, {}), "silent": {}})
            (used, silent), (sums, gpus_silent) = await asyncio.gather(
                jobpods.usage(self.pods, self._hub_id, found), self._gpus.of(found)
            )
        finally:
            place.leave()
        items = jobpods.pod_records(ranked, used)
        for item in items:
            told = sums.get((item["member"], item["name"]))
            item["gpu"] = asdict(told) if told is not None else None
        return json_response({"items": items, "silent": silent, "silentGpus": gpus_silent})

    async def _log(self, request: Request, options: Body, pod: Callable[[], Awaitable[MemberPod]]) -> Answer:
        place = self.places.take(request.user.name)
        try:
            hub_pod = await pod()
            target = f"{hub_pod.path}/log?{query_of(options, 'log')}"
            headers = [(b"accept", b"*/*"), (b"accept-encoding", b"identity")]
            answer = await self.clients.send(hub_pod.member, "GET", target, headers)
            if answer.response.status_code != 200:
                raise await refusal(answer)
        except BaseException:
            place.leave()
            raise
        carrier = self._carrier(hub_pod, answer)

        async def done() -> None:
            place.leave()
            await answer.aclose()

        pump = partial(carrier.log, follow=bool(options.get("follow")))
        shown = (_TEXT, (b"cache-control", b"no-cache, private"), (b"fleet-pod", hub_pod.name.encode()))
        return Stream(pump, LOG_S, headers=shown, done=done)

    # -- connecting

    async def connect(self, route: Route, request: Request) -> Answer:
        switch = switch_of(request, route.subresource)
        place = self.places.take(request.user.name)
        try:
            hub_pod = await self.pods.find(route.namespace, route.name)
            options, warnings = await self._admitted(route, request)
            target = f"{hub_pod.path}/{route.subresource}?{query_of(options, route.subresource)}"
            answer, chosen = await switched(self.clients, hub_pod.member, target, switch)
        except BaseException:
            place.leave()
            raise
        return relayed(request, switch, chosen, self._carrier(hub_pod, answer), place, answer, warnings)

    def _carrier(self, found: MemberPod, answer: MemberAnswer) -> Carrier:
        return Carrier(self._limits, answer, found.name, partial(self.pods.end_reason, found))

    async def _admitted(self, route: Route, request: Request) -> tuple[Body, tuple[str, ...]]:
        """The options with which webhooks and policies let the request through, and their warnings."""
        options = options_of(request, route.subresource)
        options |= {"kind": KINDS[route.subresource], "apiVersion": "v1"}
        kind = self._objects.registry.need("", "pods")
        hooks, user = self._objects.hooks, request.user
        return await may_connect(hooks, kind, route.namespace, route.name, route.subresource, user, options)


def _outward(body: Body, name: str) -> Body:
    """A member's pod as the hub shows it. Its revision is the member's, which no watch of the hub knows."""
    hidden = ("managedFields", "resourceVersion")
    metadata = {key: value for key, value in body["metadata"].items() if key not in hidden}
    return {**body, "kind": "Pod", "apiVersion": "v1", "metadata": {**metadata, "name": name}}
