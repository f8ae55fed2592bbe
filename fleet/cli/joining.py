"""Joining a member: look before anything is stored, then its credentials, then its Cluster object.

The kubeconfig goes into the hub with everything inline, so that the hub needs no file of the machine that joined it.
Joining again is how credentials or an address are changed; a name never silently comes to mean another cluster.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.amc.client import Client, NoAnswer
from fleet.amc.get import CLUSTERS
from fleet.cli.failure import Failure, TimeIsOver
from fleet.cli.hub import HubClient
from fleet.values.kubeconfig.document import BadKubeconfig, write
from fleet.values.kubeconfig.files import Access, load
from fleet.values.names import label_problems
from fleet.values.untyped import mapping, text
from fleet.wellknown import AGENT, SYSTEM_NAMESPACE

SECRETS = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets"
REACH_TIMEOUT_S = 10.0
POLL_S = 0.1
_NEEDED = (
    ("/api/v1/nodes?limit=1", "list nodes"),
    ("/api/v1/pods?limit=1", "list pods"),
    ("/api/v1/namespaces/kube-system", "get the namespace kube-system"),
)


@dataclass(frozen=True)
class MemberFacts:
    """The user's facts about a member for `fleet join`."""

    name: str
    kubeconfig: Path
    context: str | None = None
    provider: str = ""
    region: str = ""
    zone: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    holds_room: bool | None = None  # whether room is held there before a gang starts; None: as stored


def join(hub: HubClient, member: MemberFacts) -> None:
    """Store the member, or bring what is stored up to date. Raises Failure before anything is stored if it cannot be
    reached or its credentials do not do."""
    check_name(member.name)
    try:
        access = load([member.kubeconfig], context=member.context, must_exist=True)
        client = Client(access, timeout_s=REACH_TIMEOUT_S)
        identity = _look(client, access)
        _check_version(member, mapping(client.get("/version").body).get("gitVersion"))
    except (BadKubeconfig, NoAnswer) as error:
        raise Failure(f"cannot join {member.name}: {error}") from error
    _put(hub, member, access, _check_identity(hub, member, identity), _cluster(member, access, identity))


def join_pull(hub: HubClient, member: MemberFacts) -> str:
    """Store a member that only its agent reaches, and return the agent's new token. Which cluster it is, the hub learns
    once the agent is connected. Raises Failure."""
    check_name(member.name)
    try:
        access = load([member.kubeconfig], context=member.context, must_exist=True)
    except BadKubeconfig as error:
        raise Failure(f"cannot join {member.name}: {error}") from error
    if not access.server.startswith("https://"):
        raise Failure(f"cannot join {member.name}: {access.server} is no https:// URL")
    token = f"fleet-agent.{member.name}.{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(token.encode()).hexdigest()
    agent = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": f"{AGENT}-{member.name}", "namespace": SYSTEM_NAMESPACE},
        "data": {"token-sha256": base64.b64encode(digest.encode()).decode()},
    }
    known = hub.find(f"{CLUSTERS}/{member.name}")
    _check_version(member, mapping(mapping(known).get("status")).get("kubernetesVersion"))
    _put(hub, member, access, known is not None, _cluster(member, access, "", mode="Pull"))
    hub.put_object(SECRETS, agent)
    return token


def check_name(name: str) -> None:
    if label_problems(name):
        raise Failure(f'"{name}" is no name for a member: lower-case letters, digits and "-", at most 63')


def _check_version(member: MemberFacts, version: object) -> None:
    """Raises Failure where room is wanted to be held in a member that is too old for it; not where `version` is not
    known."""
    from fleet.bindings.oldmembers import too_old

    trouble = too_old({"status": {"kubernetesVersion": version}}) if member.holds_room else ""
    if trouble:
        raise Failure(f"cannot join {member.name} with --enable-reservation: it {trouble}")


def _put(hub: HubClient, member: MemberFacts, access: Access, stored: bool, cluster: dict[str, Any]) -> None:
    """The credentials, then the Cluster. Nothing is written where the Cluster would be refused."""
    inline = write(
        access.server,
        name="member",
        user="member",
        ca=access.ca,
        insecure=access.insecure,
        server_name=access.server_name,
        token=access.token,
        certificate=access.certificate,
        key=access.key,
        basic=access.basic,
    )
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": f"member-{member.name}", "namespace": SYSTEM_NAMESPACE},
        "data": {"kubeconfig": base64.b64encode(inline.encode()).decode()},
    }
    hub.put_object(CLUSTERS, cluster, dry_run=True)  # before credentials that work are written over
    hub.put_object(SECRETS, secret)
    try:
        hub.put_object(CLUSTERS, cluster)
    except Failure:
        if not stored:
            hub.request("DELETE", f"{SECRETS}/member-{member.name}", missing=True)
        raise


def wait_ready(hub: HubClient, names: Sequence[str], limit_s: float) -> None:
    """Return when every named member is Ready. Raises Failure at the limit."""
    deadline = time.monotonic() + limit_s
    waiting = list(names)
    while True:
        problems = {name: _not_ready(hub.find(f"{CLUSTERS}/{name}")) for name in waiting}
        waiting = [name for name, problem in problems.items() if problem]
        if not waiting:
            return
        if time.monotonic() > deadline:
            first = waiting[0]
            raise TimeIsOver(f"{first} is joined, but not ready after {limit_s:.0f} s: {problems[first]}")
        time.sleep(POLL_S)


def _not_ready(cluster: dict[str, Any] | None) -> str:
    """Why the member is not ready; "" when it is."""
    if cluster is None:
        return "it has been removed meanwhile"
    for condition in (cluster.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Ready":
            return "" if condition.get("status") == "True" else condition.get("message") or condition.get("reason", "?")
    return "the controllers have not looked at it yet"


def leave(hub: HubClient, name: str, *, force: bool, limit_s: float) -> None:
    """Remove the member: the controllers withdraw its work first. Raises Failure, at the limit too."""
    from fleet.cli.cordon import cluster_named

    cluster_named(hub, name)
    hub.request("DELETE", f"{CLUSTERS}/{name}?dryRun=All", missing=True)  # before a mark that gives copies up
    if force:
        annotations = {"metadata": {"annotations": {"fleet.io/force-removal": "true"}}}
        hub.request("PATCH", f"{CLUSTERS}/{name}", annotations, content_type="application/merge-patch+json")
    hub.request("DELETE", f"{CLUSTERS}/{name}", missing=True)
    deadline = time.monotonic() + limit_s
    while (found := hub.find(f"{CLUSTERS}/{name}")) is not None:
        if time.monotonic() > deadline:
            raise TimeIsOver(f"{name} is leaving, but not gone after {limit_s:.0f} s: {_still(found)}")
        time.sleep(POLL_S)
    for secret in (f"member-{name}", f"{AGENT}-{name}"):
        hub.request("DELETE", f"{SECRETS}/{secret}", missing=True)


def _still(cluster: dict[str, Any]) -> str:
    """The obstacle of a Cluster that is being deleted, in the controllers' words."""
    for condition in (cluster.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Leaving":
            return str(condition.get("message"))
    return "its work cannot be withdrawn yet (if it will never answer again: fleet unjoin --force)"


def _look(client: Client, access: Access) -> str:
    """The member's identity (uid of its kube-system). Raises NoAnswer, or Failure when it refuses what Fleet needs."""
    identity = ""
    for path, what in _NEEDED:
        answer = client.get(path)
        if answer.status == 401:
            raise NoAnswer(f"{access.server} does not accept the credentials of user {access.user or 'without a name'}")
        if not answer.ok:
            raise NoAnswer(
                f"{access.server} does not let user {access.user or 'without a name'} {what}: {answer.message}"
            )
        identity = text(mapping(mapping(answer.body).get("metadata")).get("uid"))
    if not identity:
        raise NoAnswer(f"{access.server} shows no uid of its namespace kube-system, which tells clusters apart")
    return identity


def _check_identity(hub: HubClient, member: MemberFacts, identity: str) -> bool:
    """Whether the member is stored already. Raises Failure when name and cluster do not belong together."""
    is_stored, name = False, member.name
    for cluster in hub.list(CLUSTERS):
        other = cluster["metadata"]["name"]
        other_identity = (cluster.get("spec") or {}).get("id") or ""
        if other == name:
            is_stored = True
            if other_identity and identity != other_identity:
                raise Failure(
                    f"{name} is the name of another cluster; fleet unjoin {name} first, or choose another name"
                )
        elif identity == other_identity:
            raise Failure(f"this cluster is joined already, as {other}")
    return is_stored


def _cluster(member: MemberFacts, access: Access, identity: str, *, mode: str = "Push") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "id": identity,
        "syncMode": mode,
        "apiEndpoint": access.server,
        "secretRef": {"namespace": SYSTEM_NAMESPACE, "name": f"member-{member.name}"},
        "provider": member.provider,
        "region": member.region,
        "zone": member.zone,
    }
    spec = {key: value for key, value in spec.items() if value}
    if member.holds_room is not None:
        spec["enableReservation"] = member.holds_room
    metadata: dict[str, Any] = {"name": member.name}
    if member.labels:
        metadata["labels"] = dict(member.labels)
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": metadata,
        "spec": spec,
    }
