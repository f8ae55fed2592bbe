"""The options of `fleet what-if` as edits, and the fleet that they are tried on: of a file, or of the hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.bindings.matching import ClusterFields, candidate
from fleet.cli.applying import Applier
from fleet.cli.declarations import know_kinds
from fleet.cli.failure import Failure
from fleet.cli.manifests import documents
from fleet.cli.whatif_remote import WhatIfOptions, limit, matched, move, priority
from fleet.controllers.decide.manifestunits import NoUnit, as_candidate, unit_of
from fleet.core.decide import BadSnapshot
from fleet.core.foresee.edits import (
    AddMember,
    BadEdit,
    CordonMember,
    DrainMember,
    Edit,
    Hold,
    LoseMember,
    MoveTo,
    Prioritize,
    Remove,
    ReplaceTree,
    Scale,
    SetLimit,
    Submit,
)
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.notation import byhand, codec
from fleet.core.snapshot import Snapshot
from fleet.kinds import interpreter_of

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BINDINGS = "/apis/work.karmada.io/v1alpha2/resourcebindings"
POLICY_KINDS = ("PropagationPolicy", "ClusterPropagationPolicy")

_NODES = re.compile(r"(?P<name>[^=]+)=(?P<count>\d{1,6})x(?P<gpus>\d{1,6})")
_SCALE = re.compile(r"(?P<member>[^=/]+)(/(?P<pool>\d{1,6}))?=(?P<by>[+-]\d{1,7})")
Made = Callable[[Snapshot], Iterator[Edit]]


@dataclass(frozen=True, slots=True)
class Source:
    """A fleet to ask: `hub` is None for a file."""

    name: str
    snapshot: Snapshot
    now: float
    hub: HubClient | None = None


def makers(choices: WhatIfOptions, source: Source) -> Iterator[tuple[str, Made]]:
    """For each option its text, and the function that makes edits of it for the snapshot as it is by then."""
    home = choices.namespace
    each: tuple[tuple[str, Iterable[Any], Callable[..., Iterator[Edit]]], ...] = (
        ("--add-member", choices.add_member, _added),
        ("--scale", choices.scale, _scaled),
        ("--tree", [choices.tree] if choices.tree is not None else [], _replaced),
        ("--set", choices.limits, _limited),
        ("--remove", choices.remove, partial(_remove, namespace=home)),
        ("--hold", choices.hold, partial(_hold, namespace=home, held=True)),
        ("--release", choices.release, partial(_hold, namespace=home, held=False)),
        ("--priority", choices.priority, partial(_prioritized, namespace=home)),
        ("--move", choices.move, partial(_moved, namespace=home)),
        ("--cordon", choices.cordon, partial(_cordoned, cordoned=True)),
        ("--uncordon", choices.uncordon, partial(_cordoned, cordoned=False)),
        ("--drain", choices.drain, _drained),
        ("--lose", choices.lose, partial(_lost, hub=source.hub)),
        ("--fail-over", choices.fail_over, _given_up),
        ("--submit", choices.submit, partial(_submitted, namespace=home, source=source)),
    )
    for option, texts, make in each:
        for text in texts:
            yield f"{option} {text}", partial(make, text)


def from_file(path: Path) -> Source:
    """A snapshot, or that of a decision record at the time of the decision. Raises Failure."""
    from fleet.hub.decide import read

    text = read(path)
    try:
        document = codec.loads(text)
        if isinstance(document, dict) and document.get("kind") == "Decision":
            now = document.get("now")
            document = document.get("snapshot")
            if isinstance(document, dict) and now is not None:
                document = {"now": now, **document}
        snapshot = codec.decode_snapshot(document)
        return Source(str(path), snapshot, codec.now_of(document, snapshot))
    except BadSnapshot as error:
        raise Failure(f"{path}: {error}") from error


def from_hub(hub: HubClient) -> Source | None:
    """The newest snapshot that the decider left; None where the user may not read it. Raises Failure."""
    from fleet.cli.hub import HubRefusal

    try:
        document = hub.request("GET", "/fleet/v1/snapshot").body
    except HubRefusal as refused:
        if refused.status == 403:
            return None
        raise
    try:
        snapshot = codec.decode_snapshot(document)
        return Source("the hub's snapshot", snapshot, codec.now_of(document, snapshot), hub)
    except BadSnapshot as error:
        raise Failure(f"the hub's snapshot: {error}") from error


def _added(text: str, snapshot: Snapshot) -> Iterator[Edit]:
    if _NODES.fullmatch(text) is None:
        yield from (AddMember(member) for member in _members_of(Path(text)))
        return
    found = matched(_NODES, text, "NAME=4x8")
    pool = _like_the_fleets(snapshot, int(found["gpus"]))
    yield AddMember(Member(found["name"], pools=(replace(pool, free=((pool.allocatable, int(found["count"])),)),)))


def _members_of(path: Path) -> list[Member]:
    """Of a file with a member, or a snapshot with members, as snapshots have them; JSON or YAML."""
    import yaml

    from fleet.values.kubeconfig.document import Loader

    try:
        found = yaml.load(path.read_text(), Loader=Loader)
    except OSError as error:
        raise BadEdit(f"is neither NAME=NODESxGPUS nor a file: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadEdit(f"is not YAML: {' '.join(str(error).split())}") from error
    listed = found.get("members") if isinstance(found, dict) and "members" in found else [found]
    return list(codec.decode_snapshot({"version": codec.VERSION, "members": listed}).members.values())


def _like_the_fleets(snapshot: Snapshot, gpus: int) -> Pool:
    """A pool of such nodes as the fleet has with so many GPUs; where it has none, with the CPU and memory of its
    largest node."""
    pools = [pool for name in sorted(snapshot.members) for pool in snapshot.members[name].pools]
    same = [pool for pool in pools if pool.allocatable[byhand.GPU] == gpus]
    if same:
        best = max(same, key=lambda pool: sum(count for _, count in pool.free))
        return Pool(labels=best.labels, allocatable=best.allocatable)
    most = {name: max((pool.allocatable[name] for pool in pools), default=0) for name in ("cpu", "memory")}
    return Pool(allocatable=Amounts.of({**most, "pods": byhand.PODS_OF_A_NODE, byhand.GPU: gpus}))


def _scaled(text: str, snapshot: Snapshot) -> Iterator[Edit]:
    found = matched(_SCALE, text, "MEMBER=+4 or MEMBER/POOL=-1")
    yield Scale(found["member"], int(found["pool"] or 0), int(found["by"]))


def _cordoned(text: str, snapshot: Snapshot, cordoned: bool) -> Iterator[Edit]:
    yield CordonMember(text, cordoned)


def _drained(text: str, snapshot: Snapshot) -> Iterator[Edit]:
    yield DrainMember(text)


def _given_up(text: str, snapshot: Snapshot) -> Iterator[Edit]:
    yield LoseMember(text, None)


def _lost(text: str, snapshot: Snapshot, hub: HubClient | None) -> Iterator[Edit]:
    """Of a hub it is known which jobs' policies have `failover.cluster`; a snapshot does not say."""
    from fleet.bindings.notice import cluster_failover

    bindings = hub.list(BINDINGS) if hub is not None else []
    willing = {str(body["metadata"]["uid"]) for body in bindings if cluster_failover(body) is not None}
    yield LoseMember(text, frozenset(willing & snapshot.units.keys()))


def _limited(text: str, snapshot: Snapshot) -> Iterator[Edit]:
    yield SetLimit(*limit(text))


def _replaced(path: Path, snapshot: Snapshot) -> Iterator[Edit]:
    bodies = documents(path)
    for body in bodies:
        if body["kind"] != "ElasticQuotaTree":
            raise BadEdit(f"holds a {body['kind']}, not an ElasticQuotaTree")
    if len(bodies) != 1:
        raise BadEdit(f"holds {len(bodies)} quota trees, not one")
    yield ReplaceTree(byhand.tree(bodies[0]))


def _job(text: str, namespace: str, snapshot: Snapshot) -> str:
    """The id of the unit that is meant: by id, NAMESPACE/NAME, or NAME in the namespace."""
    if text in snapshot.units:
        return text
    for name in (text, f"{namespace}/{text}"):
        found = [unit.id for unit in snapshot.units.values() if unit.name == name]
        if len(found) > 1:
            raise BadEdit(f"{name} names {len(found)} jobs; give one of their ids: {', '.join(sorted(found))}")
        if found:
            return found[0]
    others = sorted(unit.name for unit in snapshot.units.values() if unit.name.rpartition("/")[2] == text)
    there = f"; there is {', '.join(others[:3])}" if others else ""
    where = "" if "/" in text else f" in namespace {namespace}"
    raise BadEdit(f"no job {text} waits or runs{where}{there}")


def _remove(text: str, snapshot: Snapshot, namespace: str) -> Iterator[Edit]:
    yield Remove(_job(text, namespace, snapshot))


def _hold(text: str, snapshot: Snapshot, namespace: str, held: bool) -> Iterator[Edit]:
    yield Hold(_job(text, namespace, snapshot), held)


def _prioritized(text: str, snapshot: Snapshot, namespace: str) -> Iterator[Edit]:
    job, given = priority(text)
    yield Prioritize(_job(job, namespace, snapshot), given)


def _moved(text: str, snapshot: Snapshot, namespace: str) -> Iterator[Edit]:
    job, leaf = move(text)
    yield MoveTo(_job(job, namespace, snapshot), leaf)


def _submitted(path: Path, snapshot: Snapshot, namespace: str, source: Source) -> Iterator[Edit]:
    """The jobs of a file. Policies, PriorityClasses and WorkloadInterpreters that stand beside them count; objects
    without pods do not matter."""
    bodies = documents(path)
    know_kinds(bodies, source.hub)
    own = [body for body in bodies if body["kind"] in POLICY_KINDS]
    classes = [body for body in bodies if body["kind"] == "PriorityClass"]
    jobs = [body for body in bodies if interpreter_of(str(body["apiVersion"]), str(body["kind"])) is not None]
    if not jobs:
        raise BadEdit("holds no job")
    if source.hub is not None:
        applier = Applier(source.hub, namespace, dry_run=True)
        jobs = [applier.apply(job)[1] for job in jobs]
        classes += source.hub.list(CLASSES)
    for job in jobs:
        home = job["metadata"].get("namespace") or namespace
        policies, clusters = _policies(own, home, source), _clusters(source, snapshot)
        try:
            unit = unit_of(
                job,
                namespace=home,
                now=source.now,
                tree=snapshot.tree,
                clusters=clusters,
                policies=policies,
                priority_classes=classes,
            )
        except NoUnit as error:
            raise BadEdit(str(error)) from error
        if any(other.name == unit.name and other.needs_kind == unit.needs_kind for other in snapshot.units.values()):
            raise BadEdit(f"job {unit.name} is there already")
        yield Submit(unit)


def _policies(own: list[dict[str, Any]], namespace: str, source: Source) -> list[dict[str, Any]] | None:
    """The ones of the file, and of the hub; None where there are none to ask."""
    if source.hub is None:
        return [body if body["kind"] != "PropagationPolicy" else _home(body, namespace) for body in own] or None
    found = source.hub.list(f"{POLICIES}/clusterpropagationpolicies")
    found += source.hub.list(f"{POLICIES}/namespaces/{namespace}/propagationpolicies")
    return [*found, *(body if body["kind"] != "PropagationPolicy" else _home(body, namespace) for body in own)]


def _home(policy: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**policy, "metadata": {"namespace": namespace, **policy["metadata"]}}


def _clusters(source: Source, snapshot: Snapshot) -> list[ClusterFields]:
    """The members as policies look at them; added members, and all members of a file, as the snapshot has them."""
    known = (
        {} if source.hub is None else {body["metadata"]["name"]: candidate(body) for body in source.hub.list(CLUSTERS)}
    )
    return [known.get(name) or as_candidate(snapshot.members[name]) for name in sorted(snapshot.members)]
