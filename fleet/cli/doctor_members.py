"""Checks of `fleet doctor` on members: silent ones, credentials that end, versions, clocks, nodes, idle kinds."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from fleet.bindings.finding import Finding
from fleet.cli.doctor_hub import CLOCK_S, EXPIRY_S
from fleet.cli.failure import Failure
from fleet.cli.patient import PatientHub, days
from fleet.values.times import rfc3339, seconds

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

LAG_S = 60  # since the leader has last heard of a member that is ready
OLDEST_MINOR = 28  # of members that are tested
AT_ONCE = 8
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def _found(check: str, member: str, why: str, what_to_do: str) -> Finding:
    return Finding(check, "Cluster", "", member, why, what_to_do, member)


def silent_members(patient: PatientHub) -> Iterator[Finding]:
    """Members that are not ready, or that the leader has not heard of for long."""
    for member in patient.status["members"]:
        name, silent = member["name"], member["silent_s"]
        if not member["ready"]:
            mend = (
                f"mend it, give it new credentials (fleet join {name} --kubeconfig FILE), or let it go (fleet unjoin)"
            )
            yield _found("member-not-ready", name, f"is not ready: {member['message']}", mend)
        elif silent is not None and silent > LAG_S:
            why = f"is ready, and the controllers have not heard of it for {silent} s: what they know of it is old"
            yield _found("member-lags", name, why, "look at the network to it, and at the load of its API server")


def failing_nodes(patient: PatientHub) -> Iterator[Finding]:
    """Nodes on which the attempts of several jobs failed, and that the hub counts out for a time."""
    from fleet.bindings.failing import still_avoided

    for cluster in patient.clusters:
        name = cluster["metadata"]["name"]
        for one in still_avoided(cluster, 0.0):
            what = (
                f"cordon the node in the member, and mend it: kubectl cordon {one.node} (with a kubeconfig of {name})"
            )
            yield _found("failing-node", name, one.text, what)


def idle_kinds(patient: PatientHub) -> Iterator[Finding]:
    """Kinds that a member serves and no controller there acts on."""
    from fleet.bindings import idle

    for cluster in patient.clusters:
        name = cluster["metadata"]["name"]
        for kind, until in idle.idle_kinds(cluster, 0.0).items():
            why = f"a job of kind {kind} got no pods and no status; the kind is kept from it until {rfc3339(until)}"
            yield _found("idle-kind", name, why, f"start the controller of {kind} in {name}")


def old_members(patient: PatientHub) -> Iterator[Finding]:
    """Members of a Kubernetes that is older than the tested ones."""
    for cluster in patient.clusters:
        name, version = cluster["metadata"]["name"], str((cluster.get("status") or {}).get("kubernetesVersion"))
        minor = re.match(r"v1\.(\d+)\.", version)
        if minor and int(minor[1]) < OLDEST_MINOR:
            why = f"runs Kubernetes {version}, and Fleet is tested with 1.{OLDEST_MINOR} and newer"
            yield _found("member-version", name, why, "upgrade the member")


def credentials(patient: PatientHub) -> Iterator[Finding]:
    """The hub's credentials in members that end soon, or have ended."""
    for cluster in patient.clusters:
        name = cluster["metadata"]["name"]
        secret = (cluster.get("spec") or {}).get("secretRef") or {}
        path = f"/api/v1/namespaces/{secret.get('namespace')}/secrets/{secret.get('name')}"
        stored = patient.hub.find(path) if secret.get("name") else None
        for what, until in _ends(stored or {}).items():
            if until - patient.now < EXPIRY_S:
                why = f"the hub's {what} there {days(until, patient.now)}"
                yield _found("credentials", name, why, f"fleet join {name} --kubeconfig FILE, with new credentials")


def member_clocks(patient: PatientHub) -> Iterator[Finding]:
    """Clocks of members that differ from this machine's. A member that does not say is passed over."""
    names = [member["name"] for member in patient.status["members"] if member["ready"]]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, ahead in zip(names, pool.map(lambda name: _ahead(patient.hub, name), names), strict=True):
            if ahead is not None and abs(ahead) > CLOCK_S:
                why = f"its clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
                yield _found("clock", name, why, "synchronise both with the same time servers (chrony)")


def _ahead(hub: HubClient, name: str) -> float | None:
    """Seconds that the clock of a member is ahead, from the time that its review of us bears."""
    import time

    path = f"/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy/apis/authentication.k8s.io/v1/selfsubjectreviews"
    began = time.time()
    try:
        body = hub.request("POST", path, REVIEW).body
    except Failure:
        return None
    theirs = seconds(((body if isinstance(body, dict) else {}).get("metadata") or {}).get("creationTimestamp"))
    return None if theirs is None else theirs + 0.5 - (began + time.time()) / 2


def _ends(secret: dict[str, Any]) -> dict[str, float]:
    """The ends of the client certificate and the token in a member's kubeconfig."""
    from fleet.values.kubeconfig.document import BadKubeconfig, choose, parse
    from fleet.values.kubeconfig.ends import ends

    try:
        return ends(choose(parse(base64.b64decode(secret["data"]["kubeconfig"]).decode())).user)
    except (BadKubeconfig, KeyError, TypeError, ValueError):
        return {}  # the member says so itself: it is not ready
