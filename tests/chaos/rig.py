"""A hub whose processes run apart, as in production, and members behind proxies: all that the fault harness hurts.

`fleet up` keeps its children with pauses that grow with each death, which suits a hub and not a thousand kills. So the
harness keeps the processes itself, as systemd or a kubelet does: what ends is started again after a tenth of a second.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psutil

from fleet.cli.datadir import DataDir
from fleet.hub.firststart import write_kubeconfig
from tests.chaos.client import CLUSTERS, Client, Refused
from tests.chaos.disk import Disk
from tests.chaos.parts import process_of, wait_gone
from tests.chaos.proxy import Proxy, ProxyThread, behind
from tests.e2e.hub import BIN
from tests.testbed.bed import started_bed
from tests.testbed.processes import Processes, free_port, wait_for

RESTART_S = 0.1
READY_S = 120.0
CHILD_S = 10.0  # one that was killed is started again when it is needed
CHILDREN = {"solver": "fleet.core.solver.process", "decider": "fleet.controllers.decide.process"}  # of the leader
LEASE = "/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases/fleet-controllers"
TUNING = ("--protection-seconds", "2", "--head-after-seconds", "60")
CONTROLLERS = ("controllers-0", "controllers-1")


class Keeper:
    """Keeps named processes running. `unasked`: those that ended though nobody killed them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._processes = Processes(folder)
        self._commands: dict[str, list[object]] = {}
        self._asked: Counter[str] = Counter()  # kills that the keeper has not met yet
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self.unasked: list[str] = []
        self.starts: Counter[str] = Counter()

    def start(self, name: str, *command: object) -> None:
        with self._lock:
            self._commands[name] = list(command)
            self._start(name)
        if not self._thread.is_alive():
            self._thread.start()

    def pid(self, name: str) -> int:
        with self._lock:
            return self._processes.pid(name)

    def expect_end(self, name: str) -> None:
        """Call before a kill."""
        with self._lock:
            self._asked[name] += 1

    def log(self, name: str) -> str:
        return self._processes.log(name, 2000)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)
        for name in reversed(self._commands):
            self._processes.stop([name])

    def _start(self, name: str) -> None:
        self._processes.start(name, self._commands[name], {"PYTHONUNBUFFERED": "1"})
        self.starts[name] += 1

    def _keep(self) -> None:
        while not self._stop.wait(RESTART_S):
            with self._lock:
                for name in self._processes.ended():
                    if self._asked[name]:
                        self._asked[name] -= 1
                    else:
                        self.unasked.append(f"{name}: {self._processes.log(name, 5)}")
                    self._start(name)


class Rig:
    """`start()`, then `apis` has a kubeconfig for each API process, `members` one for each member, past its proxy."""

    def __init__(self, folder: Path, *, seed: int, members: int, real: int, apis: int = 2, nodes: int = 2) -> None:
        """`members` simulated ones, and `real` ones of the test bed."""
        self.folder, self.data = folder, folder / "hub"
        self._seed, self._count, self._real, self._nodes = seed, members, real, nodes
        self._far = folder / "far"
        self._beds = ExitStack()
        self.disk = Disk(self.data, 2048)
        self.keeper = Keeper(folder / "logs")
        self.network = ProxyThread()
        self.api_names = tuple(f"api-{number}" for number in range(apis))
        self.apis: list[Path] = []
        self.members: dict[str, Path] = {}
        self.behind: dict[str, Path] = {}

    def start(self) -> None:
        self.disk.mount()
        self._start_members()
        self._start_hub()
        self._proxy_members()
        if self._real:
            self._start_real()
        self._join()

    def stop(self) -> None:
        """Whatever was stopped or killed, nothing runs afterwards."""
        for name in self.keeper.starts:
            with suppress(ProcessLookupError, KeyError):
                os.kill(self.keeper.pid(name), signal.SIGCONT)
        left = [psutil.Process(pid) for pid in self._tree()]
        self.keeper.stop()
        self.network.stop()
        self._beds.close()
        wait_gone(left)
        self.disk.unmount()

    def _tree(self) -> set[int]:
        """The postmaster with its children."""
        server = process_of(self.data, "postgres")
        if server is None:
            return set()
        with suppress(psutil.Error):
            return {server.pid, *(child.pid for child in server.children(recursive=True))}
        return set()

    def _start_hub(self) -> None:
        """More parts of a hub (an agent) are started here, and named in `pid_of` and in plan.KILLED."""
        for name in self.api_names:
            port = free_port()
            self._skewed(name, "api", "--data-dir", self.data, "--listen", f"127.0.0.1:{port}")
            data = DataDir(self.data)
            wait_for("the data directory", lambda data=data: data.tokens.exists() and data.admin_token(), READY_S)
            write_kubeconfig(data, f"https://127.0.0.1:{port}")
            own = self.folder / f"{name}.kubeconfig"
            data.kubeconfig.rename(own)
            self.apis.append(own)
            if name == self.api_names[0]:  # which makes all that the others share
                wait_for(f"{name} answers", lambda own=own: self._answers(own), READY_S)
        for name in CONTROLLERS:
            self._skewed(name, "controllers", "--data-dir", self.data, *TUNING)
        (self.data / "kubeconfig").write_bytes(self.apis[0].read_bytes())
        (self.data / "kubeconfig").chmod(0o600)
        for name, own in zip(self.api_names, self.apis, strict=True):
            wait_for(f"{name} answers", lambda own=own: self._answers(own), READY_S)
        wait_for("a leader", self.leader, READY_S)

    def _skewed(self, name: str, *arguments: object) -> None:
        self.clock_file(name).write_text("0")
        self.keeper.start(name, sys.executable, "-m", "tests.chaos.skewed", self.clock_file(name), *arguments)

    def clock_file(self, name: str) -> Path:
        return self.folder / f"{name}.ahead"

    @staticmethod
    def _answers(kubeconfig: Path) -> bool:
        client = Client(kubeconfig, timeout_s=2)
        try:
            return bool(client.get("/version"))
        finally:
            client.close()

    def _start_members(self) -> None:
        """Simulated ones, all in one process: what an oracle sees of two of them is equally old."""
        command = [BIN / "fleet", "sim", "--data-dir", self._far, "--members", self._count, "--nodes", self._nodes]
        self.keeper.start("sim", *command)

    def _proxy_members(self) -> None:
        place = self._far
        for name in [f"cf{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"[: self._count]]:
            own = place / "members" / f"{name}.kubeconfig"
            wait_for(f"member {name}", own.exists, READY_S)
            self._add_member(name, own, place / "members" / "server.crt", place / "members" / "server.key")

    def _start_real(self) -> None:
        names = [f"rf{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"[: self._real]]
        bed = self._beds.enter_context(started_bed(self.folder / "bed", names, nodes=self._nodes))
        for name, member in bed.members.items():
            self._add_member(name, member.kubeconfig, *bed.serving)

    def _add_member(self, name: str, kubeconfig: Path, certificate: Path, key: Path) -> None:
        """Put a proxy before a member that runs."""
        client = Client(kubeconfig)
        target = client.http.base_url.port
        client.close()
        assert target is not None
        seed = self._seed * 100 + len(self.members)
        proxy = self.network.add(Proxy(name, target, certificate=certificate, key=key, seed=seed))
        self.members[name] = kubeconfig
        self.behind[name] = behind(kubeconfig, proxy, target, self.folder / f"{name}.kubeconfig")

    def _join(self) -> None:
        with ThreadPoolExecutor(len(self.behind)) as threads:
            for done in threads.map(self._joined, *zip(*self.behind.items(), strict=True)):
                assert done.returncode == 0, done.stdout + done.stderr
        client = Client(self.apis[0])
        wait_for("all members are ready", lambda: self.ready(client) == set(self.members), READY_S)
        client.close()

    def _joined(self, name: str, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [BIN / "fleet", "join", name, "--kubeconfig", kubeconfig, "--data-dir", self.data]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    @staticmethod
    def ready(client: Client) -> set[str]:
        found = set()
        for cluster in client.items(CLUSTERS):
            conditions = cluster.get("status", {}).get("conditions") or []
            if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
                found.add(cluster["metadata"]["name"])
        return found

    # -- processes by the part that they play ---------------------------------------------------------------------

    def leader(self) -> str | None:
        """The controllers' process that leads, by its Lease; None while that names a process of the past."""
        client = Client(random.choice(self.apis), timeout_s=2)
        try:
            holder = str(client.get(LEASE)["spec"]["holderIdentity"])
        except (Refused, httpx.HTTPError, KeyError, ValueError):
            return None
        finally:
            client.close()
        with suppress(KeyError):
            return next((name for name in CONTROLLERS if holder.endswith(f"-{self.keeper.pid(name)}")), None)
        return None

    def _child(self, target: str) -> psutil.Process | None:
        """The leader's child that plays a part."""
        for name in CONTROLLERS:
            with suppress(psutil.Error, KeyError):
                for child in psutil.Process(self.keeper.pid(name)).children():
                    if any(CHILDREN[target] in word for word in child.cmdline()):
                        return child
        return None

    def named(self, target: str, dice: random.Random) -> str:
        """The process that plays a part now; "" for those that others keep: PostgreSQL's, and the leader's children."""
        if target == "api":
            return dice.choice(self.api_names)
        if target in ("leader", "standby"):
            leader = wait_for("a leader", self.leader)
            return leader if target == "leader" else next(name for name in CONTROLLERS if name != leader)
        return target if target == "sim" else ""

    def processes(self, target: str, name: str, dice: random.Random) -> list[int]:
        """The ids of the processes that a signal to the part goes to."""
        if name:
            return [self.keeper.pid(name)]
        if target in CHILDREN:
            return [wait_for(f"a {target}", lambda: self._child(target), CHILD_S).pid]
        server = wait_for("PostgreSQL runs", lambda: process_of(self.data, "postgres"))
        if target == "backend":
            children = wait_for("backends", server.children)
            return [dice.choice(children).pid]
        return [server.pid]

    def with_children(self, pid: int) -> list[int]:
        with suppress(psutil.Error):
            return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        return [pid]
