"""Members whose Kubernetes is too old for something."""

from __future__ import annotations

import re

from fleet.bindings import binding as b
from fleet.values.ports import Body
from fleet.values.untyped import text

SINCE = (1, 28)  # Kubernetes: scheduling gates are on by default, and nominations of gated pods count


def too_old(cluster: Body) -> str:
    """Why room cannot be held in this member; "" when it can, and while its version is not known."""
    version = text(b.status_of(cluster).get("kubernetesVersion"))
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) >= SINCE:
        return ""
    return f"runs Kubernetes {version}; room is held from v{SINCE[0]}.{SINCE[1]} on"
