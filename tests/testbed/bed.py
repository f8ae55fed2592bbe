"""A test bed: real member clusters on loopback that share one etcd.

    with started_bed(tmp_path, ["cfa", "cfb", "cfc"]) as bed:
        bed.members["cfa"].kubeconfig          # give it to `fleet join`
        bed.members["cfa"].get("/api/v1/pods")

Each member is a kube-apiserver, kube-scheduler, kube-controller-manager, kwok (which plays the nodes) and the training
operator, all unmodified. There is no kubelet and no container: pods "run" as long as their annotation
`testbed/run-for` says and end with the exit code of `testbed/exit-code`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from tests.testbed.build import JOBS, Parts, parts
from tests.testbed.member import RealMember
from tests.testbed.operators.controllers import REPLACED, RUNNERS, check_places, install, with_needed
from tests.testbed.operators.schedulers import start_coscheduling, start_koordinator, start_kueue, start_volcano
from tests.testbed.pki import make_pki
from tests.testbed.processes import Processes, free_port, wait_for

Operators = Mapping[str, Sequence[str]]  # by member
DEFAULT, GANGS = "kubernetes", "kubernetes-gangs"  # the second: with its own gang scheduling, which is alpha
SCHEDULERS: dict[str, Callable[[RealMember], None]] = {
    DEFAULT: RealMember.start_scheduler,
    GANGS: RealMember.start_scheduler,
    "koordinator": start_koordinator,
    "coscheduling": start_coscheduling,
    "volcano": start_volcano,
    "kueue": start_kueue,
}


class Bed:
    """The processes of all members. Use `started_bed`."""

    def __init__(self, folder: Path, built: Parts) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.processes = Processes(folder)
        self.members: dict[str, RealMember] = {}
        self._built = built
        self._pki = make_pki(folder / "pki")
        self._begin = time.monotonic()

    def start(
        self, names: Sequence[str], *, nodes: int, gpus: int, operators: Operators, schedulers: Mapping[str, str]
    ) -> None:
        """Bring all members up side by side: every phase is begun in all of them before it is waited for in any."""
        etcd = self._etcd()
        for name in names:
            self.members[name] = RealMember(name, self.folder / name, self._built, self._pki, self.processes, etcd)
        members = list(self.members.values())
        for member in members:
            member.gangs = schedulers.get(member.name) == GANGS
            member.start_apiserver()
        for member in members:
            member.wait_apiserver()
        self._say("kube-apiservers answer")
        for member in members:
            self._start_parts(member, operators.get(member.name, ()), schedulers.get(member.name, DEFAULT))
            member.add_nodes(nodes, gpus=gpus)
        for member in members:
            member.wait_ready(nodes)
        self._say(f"{len(members)} members with {nodes} nodes of {gpus} GPUs each are ready")

    @property
    def serving(self) -> tuple[Path, Path]:
        """The certificate of all API servers, and its key: for a proxy that must answer in their place."""
        return self._pki.certificate, self._pki.key

    def stop(self) -> None:
        """Operators first, API servers next, etcd last: an API server without etcd hangs when asked to end."""
        names = self.processes.names()
        servers = [name for name in names if name.endswith(".apiserver")]
        self.processes.stop([name for name in names if name not in servers and name != "etcd"])
        self.processes.stop(servers)
        self.processes.stop(["etcd"])

    def _start_parts(self, member: RealMember, operators: Sequence[str], scheduler: str) -> None:
        SCHEDULERS[scheduler](member)
        replaced = {kind for operator in operators for kind in REPLACED.get(operator, ())}
        member.install_training_operator([kind for kind in JOBS if kind not in replaced])
        for operator in with_needed(operators):
            install(member, operator)
        member.start_controllers([runner for operator in operators for runner in RUNNERS.get(operator, ())])

    def _etcd(self) -> str:
        client, peer = free_port(), free_port()
        address, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self.processes.start(
            "etcd",
            [
                self._built.binary("etcd"),
                "--name=etcd",
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={address}",
                f"--advertise-client-urls={address}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=etcd={peers}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
        )
        wait_for("etcd", lambda: httpx.get(f"{address}/health").json()["health"] == "true")
        return address

    def _say(self, text: str) -> None:
        print(f"test bed [{time.monotonic() - self._begin:6.1f}s] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def started_bed(
    folder: Path,
    names: Sequence[str],
    *,
    nodes: int = 4,
    gpus: int = 8,
    operators: Sequence[str] | Operators = (),
    scheduler: str | Mapping[str, str] = DEFAULT,
) -> Iterator[Bed]:
    """A running bed; on the way out everything is stopped, also when the start failed half way. `operators` are the
    job controllers of other projects that run beside the training operator, and `scheduler` is one of `SCHEDULERS`;
    both are for all members, or by the member's name."""
    if not isinstance(operators, Mapping):
        operators = dict.fromkeys(names, operators)
    check_places(operators)
    schedulers = dict.fromkeys(names, scheduler) if isinstance(scheduler, str) else scheduler
    bed = Bed(folder, parts())
    try:
        bed.start(names, nodes=nodes, gpus=gpus, operators=operators, schedulers=schedulers)
        yield bed
    finally:
        bed.stop()
