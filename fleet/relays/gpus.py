"""What GPUs the pods of a job use, and how, asked of the source that the Cluster of their member names.

An answer is kept for some seconds, and askers meanwhile wait for the one that is under way. So ten open pages cost a
member what one costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from api.engine.status import StatusError
from api.outgoing import OutgoingClient
from fleet.members.gpuelsewhere import asked_elsewhere
from fleet.members.gpufigures import NoFigures, SourceFigures, Sum, ask, summed
from fleet.members.gpusource import Prometheus, Source, source_of
from fleet.relays.clients import MemberClients
from fleet.relays.pods import MemberPod
from fleet.values.ports import Clock, Key, Store
from fleet.values.untyped import mapping, text
from fleet.wellknown import CLUSTER

KEPT_S = 10.0
KEPT_MOST = 256  # answers
_HEADERS = [(b"accept", b"*/*"), (b"accept-encoding", b"identity")]
_Asked = tuple[str, Source, str, frozenset[str]]


class Gpus:
    """`outgoing` None: a Prometheus outside the members is not asked."""

    def __init__(self, store: Store, clients: MemberClients, clock: Clock, outgoing: OutgoingClient | None) -> None:
        self._store, self._clients, self._clock, self._outgoing = store, clients, clock, outgoing
        self._kept: dict[_Asked, tuple[float, asyncio.Task[SourceFigures]]] = {}

    async def of(self, all_pods: Sequence[MemberPod]) -> tuple[dict[tuple[str, str], Sum], dict[str, str]]:
        """The sum over the GPUs of each pod, by member and name; and for each member that does not tell, why. A member
        whose Cluster names no source is in neither."""
        tasks: dict[str, asyncio.Task[SourceFigures]] = {}
        for member in sorted({one.member for one in all_pods}):
            cluster = self._store.peek(Key(CLUSTER, "clusters", "", member))
            source = source_of(cluster.body) if cluster is not None else None
            if source is not None:
                pods = [one for one in all_pods if one.member == member]
                nodes = frozenset(text(mapping(one.body.get("spec")).get("nodeName")) for one in pods) - {""}
                tasks[member] = self._task((member, source, pods[0].namespace, nodes))
        sums: dict[tuple[str, str], Sum] = {}
        silent: dict[str, str] = {}
        for member, task in tasks.items():
            told = await asyncio.shield(task)
            if told.silent:
                silent[member] = told.silent
            for one in all_pods:
                its = [f for f in told.figures if (f.namespace, f.pod) == (one.namespace, one.name)]
                if one.member == member and its:
                    sums[member, one.name] = summed(its)
        return sums, silent

    def _task(self, question: _Asked) -> asyncio.Task[SourceFigures]:
        now = self._clock.monotonic()
        kept = self._kept.get(question)
        if kept is not None and now - kept[0] < KEPT_S:
            return kept[1]
        member, source, namespace, nodes = question
        asker = _Asker(member, self._store, self._clients, self._outgoing)
        task = asyncio.create_task(ask(source, asker, nodes, namespace), name=f"gpus:{member}")
        self._kept.pop(question, None)
        while len(self._kept) >= KEPT_MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[question] = (now, task)
        return task

    async def aclose(self) -> None:
        tasks = [task for _, task in self._kept.values()]
        self._kept.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Asker:
    def __init__(self, member: str, store: Store, clients: MemberClients, outgoing: OutgoingClient | None) -> None:
        self._member, self._store, self._clients, self._outgoing = member, store, clients, outgoing

    async def member(self, path: str, within_s: float) -> bytes:
        import httpx

        try:
            async with asyncio.timeout(within_s):
                answer = await self._clients.send(self._member, "GET", path, _HEADERS)
                try:
                    content = await answer.whole(within_s)
                finally:
                    await answer.aclose()
        except StatusError as error:
            raise NoFigures(error.message) from None
        except httpx.HTTPError as error:
            raise NoFigures(f"the answer broke off: {type(error).__name__}") from None
        except TimeoutError:
            raise NoFigures(f"no answer within {within_s:g} s") from None
        if answer.response.status_code != 200:
            raise NoFigures(f"{path.partition('?')[0]} answers {answer.response.status_code}")
        return content

    async def elsewhere(self, source: Prometheus, path: str, within_s: float) -> bytes:
        if self._outgoing is None:
            raise NoFigures("this process asks no server outside its members")
        return await asked_elsewhere(self._outgoing, self._store, source, path, within_s)
