"""The edits of a what-if question: jobs by their names, manifests, and which of it the asker may ask.

A user who may `post` on the path may ask anything, and the answer has names. Other users may ask about jobs that they
may get or create and about the queues that they see; the answer names their jobs alone and counts the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import Request

from api.objects.writing import Options
from api.wire.rights import Attributes
from fleet.admission.latest import StoredSnapshot
from fleet.bindings.notice import cluster_failover
from fleet.core.foresee.binding import Bottleneck
from fleet.core.foresee.edits import Edit, Submit
from fleet.core.foresee.whatif import Comparison, ComparisonRow, UnitStanding
from fleet.core.model.unit import Unit
from fleet.core.notation.edits import decode_edits, encode_comparison, encode_edits
from fleet.core.snapshot import Snapshot
from fleet.kinds import named_kind
from fleet.rest.context import RestHub, allowed, hub_request, need, user_of, wrong
from fleet.rest.line import BINDINGS, queue_paths
from fleet.rest.manifest import inside, manifest_of
from fleet.rest.sight import jobs_seen, nodes_seen
from fleet.values.ports import Body

WHAT_IF = "/fleet/v1/what-if"
EVERYTHING = Attributes("post", path=WHAT_IF)
OF_JOBS = ("Remove", "Hold", "Prioritize", "MoveTo", "Resize")
OF_QUEUES = {"SetLimit": "node", "MoveTo": "leaf"}
GPU = "nvidia.com/gpu"
POLICY = "policy"  # as `failover`: what each job's policy says

# The unit that a manifest would become right now, in a snapshot; ValueError says why it would become none.
UnitOf = Callable[[Body, str, float, Snapshot], Unit]


@dataclass(slots=True)
class Question:
    """One request. `whole`: the asker may ask anything and know everything."""

    hub: RestHub
    request: Request
    unit_of: UnitOf
    latest: StoredSnapshot
    whole: bool = False
    submitted: set[str] = field(default_factory=set)
    _seen: Callable[[Unit], bool] = lambda unit: False

    def __post_init__(self) -> None:
        self.whole = allowed(self.request, EVERYTHING)
        self._seen = jobs_seen(self.hub, self.request)

    async def edits(self, given: object) -> list[Edit]:
        """StatusError for what may not be asked, and BadSnapshot for what cannot be read."""
        if not isinstance(given, list):
            return decode_edits(given)
        return decode_edits([await self._plain(item, f"edits[{index}]") for index, item in enumerate(given)])

    async def _plain(self, item: object, where: str) -> object:
        """The edit without names and manifests, as snapshots know it."""
        if not isinstance(item, Mapping) or len(item) != 1:
            return item
        ((name, body),) = item.items()
        if not isinstance(body, Mapping):
            return item
        where = f"{where}.{name}"
        if name == "Submit" and "manifest" in body:
            return encode_edits([Submit(await self._submitted(body["manifest"], where))])[0]
        if not self.whole:
            self._may_ask(name, body, where)
        if name == "LoseMember" and body.get("failover") == POLICY:
            return {name: {**body, "failover": self._failing_over()}}
        if name in OF_JOBS and isinstance(body.get("unit"), str):
            return {name: {**body, "unit": self._named(body["unit"], f"{where}.unit")}}
        return item

    def _failing_over(self) -> list[str]:
        """The units whose policy lets them start elsewhere while their member does not answer."""
        bindings = [stored.body for stored in self.hub.store.scan(*BINDINGS)]
        willing = {str(body["metadata"]["uid"]) for body in bindings if cluster_failover(body) is not None}
        return sorted(willing & self.latest.snapshot.units.keys())

    def _may_ask(self, name: str, body: Mapping[str, Any], where: str) -> None:
        if name not in (*OF_JOBS, *OF_QUEUES):
            hint = ": give it a manifest" if name == "Submit" else ""
            raise EVERYTHING.refusal(user_of(self.request), f"{where} needs that right{hint}")
        path = body.get(OF_QUEUES.get(name, ""))
        tree = self.latest.snapshot.tree
        if isinstance(path, str) and tree is not None:
            names = {path: queue for queue, path in queue_paths(self.hub.store).items()}
            seen = nodes_seen(self.hub, self.request, tree, names)
            if seen is not None and path not in seen:
                raise wrong(f"{where}.{OF_QUEUES[name]}", f"there is no queue {path[:100]} that you may see")

    def _named(self, text: str, where: str) -> str:
        """The id of a unit that is named by it, or by the namespace and name of its job."""
        units = self.latest.snapshot.units
        named = [units[text]] if text in units else [unit for unit in units.values() if unit.name == text]
        matches = [unit for unit in named if self.whole or self._seen(unit)]
        if len(matches) > 1:
            ids = ", ".join(sorted(unit.id for unit in matches)[:5])
            raise wrong(where, f"{text[:300]} names {len(matches)} jobs; give one of their ids: {ids}")
        if not matches and not self.whole:
            raise wrong(where, f"no job {text[:300]} waits or runs that you may see")
        return matches[0].id if matches else text

    async def _submitted(self, manifest: object, where: str) -> Unit:
        """All checks of the hub, as the asker; nothing is stored."""
        if not isinstance(manifest, dict):
            raise wrong(f"{where}.manifest", "must be an object")
        with inside(f"{where}.manifest"):
            read = manifest_of(manifest, self.hub.registry, None)
            need(self.request, Attributes("create", read.kind.group, read.kind.resource, namespace=read.namespace))
            options = Options(user_of(self.request), hub_request(self.request).agent, True, "Strict")
            written = await self.hub.objects.create(read.kind, read.namespace, read.body, options)
        try:
            unit = self.unit_of(written.body, read.namespace, self.latest.now, self.latest.snapshot)
        except ValueError as error:
            raise wrong(f"{where}.manifest", str(error)) from error
        self.submitted.add(unit.id)
        return unit

    def answer(self, comparison: Comparison) -> dict[str, Any]:
        """As the asker may know it."""
        if self.whole:
            return {**encode_comparison(comparison, self.latest.now, named_kind), "others": []}
        mine = [row for row in comparison.rows if row.unit.id in self.submitted or self._seen(row.unit)]
        ids = {row.unit.id for row in mine}
        others = [row for row in comparison.rows if row.unit.id not in ids]
        bound = tuple(_bound(bound) for bound in comparison.bound if bound.unit.id in ids)
        told = replace(comparison, rows=tuple(_told(row) for row in mine), bound=bound)
        return {**encode_comparison(told, self.latest.now, named_kind), "others": _counted(others)}


def _told(row: ComparisonRow) -> ComparisonRow:
    """Without names of jobs of other namespaces in its reasons."""

    def told(standing: UnitStanding) -> UnitStanding:
        return replace(standing, reason=standing.reason and standing.reason.told_to(_namespace(row.unit)))

    return replace(row, before=told(row.before), after=told(row.after))


def _bound(bound: Bottleneck) -> Bottleneck:
    return replace(bound, reason=bound.reason.told_to(_namespace(bound.unit)))


def _namespace(unit: Unit) -> str:
    return unit.name.partition("/")[0]


def _counted(rows: list[ComparisonRow]) -> list[dict[str, Any]]:
    """How many jobs of each leaf change in which way, and their GPUs."""
    jobs: Counter[tuple[str, str]] = Counter()
    gpus: Counter[tuple[str, str]] = Counter()
    for row in rows:
        key = (row.unit.leaf or "", row.verdict.value)
        jobs[key] += 1
        gpus[key] += row.unit.total[GPU]
    return [
        {"leaf": leaf or None, "change": change, "jobs": count, "gpus": gpus[leaf, change]}
        for (leaf, change), count in sorted(jobs.items())
    ]
