"""The pods of a job, as a list for people and their programs: role, member, state, and what they ask for and use.

The usage of a pod is that of metrics.k8s.io in its member. A member without it is named, so that a reader knows why
figures are missing. The figures are asked for with `usage=true`, since they cost the member one more request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from api.engine.status import StatusError
from fleet.members.texts import one_line
from fleet.relays.joblog import RankedPod
from fleet.relays.pods import MemberPod, MemberPods
from fleet.values.ports import Body
from fleet.values.quantity import BadQuantity, nanos, rounded, text_of
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import LABEL_BINDING, LABEL_HUB

METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces"
NO_METRICS = "does not serve metrics.k8s.io, so it tells no usage"


def pod_records(pods: Sequence[RankedPod], used: Mapping[tuple[str, str], Body]) -> list[dict[str, Any]]:
    """A record for each pod. `used`: by member and name."""
    return [
        {
            "name": hub_pod.name,
            "uid": text(hub_pod.body["metadata"].get("uid")),
            "member": hub_pod.member,
            "role": pod.role,
            "rank": pod.rank,
            "phase": one_line(mapping(hub_pod.body.get("status")).get("phase")) or "Pending",
            "node": one_line(mapping(hub_pod.body.get("spec")).get("nodeName")),
            "containers": [text(c.get("name")) for c in rows(mapping(hub_pod.body.get("spec")).get("containers"))],
            "requests": _sum(hub_pod.body),
            "usage": used.get((hub_pod.member, hub_pod.name)),
        }
        for pod in pods
        for hub_pod in (pod.hub_pod,)
    ]


def _sum(pod: Body) -> dict[str, str]:
    """The requests of its containers; what a container only limits, it asks for."""
    sums: dict[str, int] = {}
    for container in rows(mapping(pod.get("spec")).get("containers")):
        resources = mapping(container.get("resources"))
        _add(sums, {**mapping(resources.get("limits")), **mapping(resources.get("requests"))})
    return _texts(sums)


def _add(sums: dict[str, int], amounts: Mapping[str, Any]) -> None:
    for resource, value in amounts.items():
        try:
            sums[resource] = sums.get(resource, 0) + nanos(value, resource)
        except BadQuantity:
            continue


def _texts(sums: Mapping[str, int]) -> dict[str, str]:
    return {resource: text_of(resource, rounded(amount, resource)) for resource, amount in sorted(sums.items())}


async def usage(
    pods: MemberPods, hub_id: str, job_pods: Sequence[MemberPod]
) -> tuple[dict[tuple[str, str], Body], dict[str, str]]:
    """What each pod uses, by member and name; and for each member that does not tell, why."""
    used: dict[tuple[str, str], Body] = {}
    silent: dict[str, str] = {}
    for member in sorted({one.member for one in job_pods}):
        first = next(one for one in job_pods if one.member == member)
        query = urlencode({"labelSelector": f"{LABEL_HUB}={hub_id},{LABEL_BINDING}={first.uid}"})
        try:
            listed = await pods.clients.read(member, f"{METRICS}/{quote(first.namespace, safe='')}/pods?{query}")
        except StatusError as error:
            silent[member] = error.message
            continue
        if listed is None:
            silent[member] = NO_METRICS
            continue
        for item in rows(listed.get("items")):
            sums: dict[str, int] = {}
            for container in rows(item.get("containers")):
                _add(sums, mapping(container.get("usage")))
            used[member, text(mapping(item.get("metadata")).get("name"))] = _texts(sums)
    return used, silent
