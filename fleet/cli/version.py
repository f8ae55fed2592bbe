"""`fleet version`."""

from __future__ import annotations

import sys

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption

WITHIN_S = 5.0


def version(kubeconfig: KubeconfigOption = None, context: ContextOption = None, data_dir: DataDirOption = None) -> None:
    """Print the version of this program, and of the hub.

    Without an answer of a hub, stderr says why. `fleet --version` asks no hub.
    """
    from fleet.cli.hub import connect
    from fleet.client.config import OWN_VERSION
    from fleet.values.release import ProgramRelease, running

    print(f"fleet {running()}", flush=True)
    try:
        hub = connect(kubeconfig, data_dir, context, timeout_s=WITHIN_S)
        answer = hub.request("GET", "/version").body
    except Failure as failure:
        print(f"fleet: {failure}", file=sys.stderr)
        return
    kubernetes, _, own = str(answer["gitVersion"]).partition(OWN_VERSION)
    theirs = ProgramRelease(own or "unknown", str(answer["gitCommit"]))
    print(f"hub {theirs} (Kubernetes API {kubernetes}, {hub.client.access.server})")
