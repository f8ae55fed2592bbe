"""k9s shows a hub to its administrator and to a reader: jobs, events, members, queues; and the pods of a member."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from operator import ne
from pathlib import Path

import pytest
import yaml

from tests.clients.build import client
from tests.clients.terminal import Terminal
from tests.clients.walkthrough import JOB, MEMBERS, OBJECTS, WAITING, second_waits, started
from tests.e2e.hub import BIN, Kubectl, World

ENTER, DOWN, END = "\r", "j", "G"
NO_METRICS = "Fail to locate metrics-server"
CONFIG = {"k9s": {"skipLatestRevCheck": True, "ui": {"splashless": True, "logoless": True}}}


class K9s(Terminal):
    """k9s of one user. `folder`: for its settings and its log."""

    def __init__(self, folder: Path, kubeconfig: Path, *words: str) -> None:
        folder.mkdir()
        (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG))
        self._log = folder / "k9s.log"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "K9S_CONFIG_DIR": str(folder),
        }
        super().__init__([str(client("k9s")), "--logFile", str(self._log), *words], environment)

    def view(self, name: str) -> None:
        """As a person types it."""
        self.type(":")
        self.type(f"{name}{ENTER}")

    def rows(self, *rows: tuple[str, ...]) -> None:
        """Until the screen has a line with all the words of each row."""

        def seen(text: str) -> bool:
            return all(any(all(word in line for word in row) for line in text.splitlines()) for row in rows)

        self.until(f"rows {rows}", seen)

    def refreshed(self) -> None:
        """Until the screen has changed twice by itself: ages grow."""
        for _ in range(2):
            self.until("a refresh", partial(ne, self.text))

    def complaints(self) -> list[str]:
        """The errors and warnings in its log."""
        plain = re.sub(r"\x1b\[[0-9;]*m", "", self._log.read_text())
        return re.findall(r"^\S+ (?:ERR|WRN) (.*)$", plain, re.M)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with started(tmp_path_factory.mktemp("k9s")) as found:
        found.kubectl.apply(*OBJECTS)
        second_waits(found)
        yield found


def kubeconfig_of(world: World, user: str, path: Path) -> Path:
    """For a user who has the role `viewer` everywhere."""
    command = [str(BIN / "fleet"), "token", "create", user, "-o", "kubeconfig", "--data-dir", str(world.hub.folder)]
    path.write_text(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    world.kubectl.run("create", "clusterrolebinding", user, "--clusterrole=viewer", f"--user={user}")
    kubectl = Kubectl(path)
    world.until("the token is known", lambda: kubectl.try_run("get", "pytorchjobs").code == 0)
    return path


@pytest.mark.parametrize(
    ("user", "complaints"),
    [
        ("admin", [NO_METRICS]),
        # Definitions of other kinds are the administrator's: k9s looks for them twice, and does without.
        ("reader", [NO_METRICS, "CRDs load Fail", "CRDs load Fail"]),
    ],
)
def test_k9s_shows_jobs_their_events_members_and_queues(
    world: World, tmp_path: Path, user: str, complaints: list[str]
) -> None:
    own = world.hub.kubeconfig if user == "admin" else kubeconfig_of(world, user, tmp_path / "kubeconfig")
    with K9s(tmp_path / "k9s", own, "-n", "default", "-c", "pytorchjobs") as k9s:
        k9s.rows((WAITING, "Queuing"), (JOB, "Running"))
        k9s.type(DOWN)
        k9s.type("d")
        k9s.until("the description", lambda text: "API Version:" in text)
        k9s.type(END)
        k9s.rows(("ScheduleBindingSucceed", "Binding has been scheduled successfully"))
        k9s.view("clusters")
        k9s.rows(*((member, "Push", "True") for member in MEMBERS))
        k9s.view("queues kube-queue")
        k9s.rows(("root-child-2-", "Priority"))
        k9s.refreshed()
        assert [line.partition(" error=")[0] for line in k9s.complaints()] == complaints, k9s.complaints()


def test_k9s_shows_the_pods_of_a_member_and_their_logs_by_the_proxy(world: World, tmp_path: Path) -> None:
    config = yaml.safe_load(world.hub.kubeconfig.read_text())
    member = world.placed(JOB, "default")
    config["clusters"][0]["cluster"]["server"] += f"/apis/cluster.karmada.io/v1alpha1/clusters/{member}/proxy"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    with K9s(tmp_path / "k9s", kubeconfig, "-n", "default", "-c", "pods") as k9s:
        k9s.rows(*((f"{JOB}-{name}", "1/1", "Running") for name in ("master-0", "worker-0", "worker-1")))
        k9s.type("l")
        k9s.rows((f"{JOB}-master-0/pytorch: Running in the simulated cluster {member}",))
        assert [line.partition(" error=")[0] for line in k9s.complaints()] == [NO_METRICS], k9s.complaints()
