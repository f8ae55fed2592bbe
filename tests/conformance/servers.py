"""The two servers that the suite is run on: the test bed's kube-apiserver, and the hub.

Neither has a node. The real one is a member of the test bed: kube-apiserver and etcd, kube-controller-manager with the
controllers of the test bed (namespaces, service accounts, garbage collection, jobs, root certificates), kube-scheduler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.hub import Hub
from tests.testbed.bed import started_bed


@contextlib.contextmanager
def started_real(folder: Path) -> Iterator[Path]:
    """The kubeconfig of its administrator."""
    with started_bed(folder, ["real"], nodes=0) as bed:
        yield bed.members["real"].kubeconfig


@contextlib.contextmanager
def started_hub(folder: Path) -> Iterator[Path]:
    """The kubeconfig of its administrator."""
    hub = Hub(folder / "hub")
    hub.start()
    try:
        yield hub.kubeconfig
    finally:
        hub.stop()


STARTED = {"hub": started_hub, "real": started_real}
