"""A real kube-apiserver of the test bed by itself, without nodes and controllers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.bed import Bed
from tests.testbed.build import parts
from tests.testbed.member import RealMember


@dataclass(frozen=True)
class RealServer:
    """The running server. `ca`: the file of its authority; `folder`: for whatever else a test needs."""

    url: str
    ca: Path
    folder: Path
    token: str = "admin-token"


@contextmanager
def real_server(name: str, *options: str) -> Iterator[RealServer]:
    with tempfile.TemporaryDirectory(prefix=f"fleet-{name}-") as folder:
        bed = Bed(Path(folder) / "bed", parts())
        try:
            etcd = bed._etcd()
            member = RealMember(name, bed.folder / name, bed._built, bed._pki, bed.processes, etcd)
            bed.members[name] = member
            member.start_apiserver(options)
            member.wait_apiserver()
            yield RealServer(member.url, bed._pki.ca, Path(folder))
        finally:
            bed.stop()
