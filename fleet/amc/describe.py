"""`kubectl amc describe`: kubectl's own description of an object, asked of each member through the hub's proxy.

kubectl describes each built-in kind in its own way, so kubectl does it: the plugin is started by kubectl, and gives it
the address of the member.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from fleet.amc.client import Client
from fleet.amc.get import CommandRefusal, Query, at_once, of_members, proxy

MORE_S = 20.0  # for kubectl's own work, beside the time that a member has for each answer


def describe(client: Client, query: Query, how: Sequence[str], timeout_s: float) -> tuple[str, list[str]]:
    """The text for stdout, and lines for stderr. `how`: options of kubectl that name the hub and its user. Raises
    NoAnswer and CommandRefusal."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise CommandRefusal("error: describe needs kubectl, which is not on the PATH")
    members = of_members(client, query.members)

    def one(member: str) -> tuple[str, list[str]]:
        command = [
            kubectl,
            "describe",
            *how,
            f"--server={client.access.server}{proxy(member)}",
            f"--request-timeout={timeout_s:g}s",
            *_where(query),
            ",".join(query.words),
            *query.names,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s + MORE_S)
        except subprocess.TimeoutExpired:
            return "", [f"cluster({member}): no answer within {timeout_s + MORE_S:g} s"]
        complaints = [f"cluster({member}): {line}" for line in done.stderr.splitlines() if line.strip()]
        head = f"Cluster:  {member}\n" if done.stdout else ""
        return head + done.stdout, complaints[-1:] if done.returncode else []

    found = at_once(one, members)
    return "\n\n".join(text for text, _ in found if text), [line for _, lines in found for line in lines]


def _where(query: Query) -> list[str]:
    where = ["--all-namespaces"] if query.namespace is None else [f"--namespace={query.namespace}"]
    return [*where, *([f"--selector={query.selector}"] if query.selector else [])]
