"""`fleet version`."""

from __future__ import annotations

import sys

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption

WITHIN_S = 5.0


def version(
    kubeconfig: KubeconfigOption = None, context: ContextOption = None, data_dir: DataDirOption = None
) -> None:  # fmt: skip
    """Print the version of this program, and of the hub.

    Without an answer of a hub, stderr says why. `fleet --version` asks no hub.
    """
    from fleet import __version__
    from fleet.cli.hub import connect
    from fleet.client.config import OWN_VERSION

    print(f"fleet {__version__}", flush=True)
    try:
        hub = connect(kubeconfig, data_dir, context, timeout_s=WITHIN_S)
        said = str(hub.request("GET", "/version").body["gitVersion"])
    except Failure as failure:
        print(f"fleet: {failure}", file=sys.stderr)
        return
    kubernetes, _, own = said.partition(OWN_VERSION)
    print(f"hub {own or 'unknown'} (Kubernetes API {kubernetes}, {hub.client.access.server})")
