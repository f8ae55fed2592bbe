"""A reader of a guide, who runs its commands in the order of the page and compares what they print."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tests.checkout import ROOT
from tests.cli.hub import BIN
from tests.docs.not_run import BY_CHANCE, NOT_RUN
from tests.docs.shown import QUEUE, Command, commands, missing
from tests.docs.world import HOW_TO, Meanwhile, World
from tests.testbed.build import parts

WITHIN_S = 150.0  # until the hub has done what the page shows
READS = re.compile(
    r"(fleet (jobs|queues|clusters|logs|top|doctor|check|explain|sweep|status|show|report|history|what-if)"
    r"|(kubectl|kubectl amc|\$CFA) (get|describe|auth)|jq)\b"
)
ADDRESS = re.compile(r"https://127\.0\.0\.1:644\d")
DECISION = re.compile(r"/decisions/\d+/")
OF_WHOM = re.compile(r" --kubeconfig \S+")
NAMES = re.compile(r"(export )?[A-Z_]+=")  # a command that later ones need in their shell


def shown(page: str) -> list[Command]:
    return list(commands((HOW_TO / page).read_text()))


def named_by(pattern: str, command: Command) -> bool:
    """Whether the pattern is that of a command, or of `SECTION: COMMAND`."""
    return fnmatchcase(command.line, pattern) or fnmatchcase(f"{command.section}: {command.line}", pattern)


def asked(page: str) -> list[Command]:
    """The commands of the page that are run."""
    return [command for command in shown(page) if not any(named_by(p, command) for p in NOT_RUN.get(page, {}))]


class Reader:
    """A shell in a folder that looks like a checkout. Its kubeconfig is a copy whose context is in the world's
    namespace. What a command exports, later ones have."""

    def __init__(self, folder: Path, world: World, kubeconfig: Path, **environment: str) -> None:
        self._folder = folder
        self._patience_s = WITHIN_S
        self._names: list[str] = []
        config = yaml.safe_load(kubeconfig.read_text())
        self._address = config["clusters"][0]["cluster"]["server"]
        config["contexts"][0]["context"]["namespace"] = world.namespace
        own = folder / "kubeconfig"
        own.write_text(yaml.safe_dump(config))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
        path = f"{BIN}:{parts().binary('kubectl').parent}:{clean['PATH']}"
        # Unbuffered, so that lines come in the order in which a terminal shows them.
        self._environment: Mapping[str, str] = clean | {
            "KUBECONFIG": str(own),
            "PATH": path,
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        for name in ("docs", "examples", "deploy"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("images"))
        for name, text in world.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)

    def run(self, line: str, stdin: str = "y\n") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", "\n".join([*self._names, line])],
            input=stdin,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * WITHIN_S,
            check=False,
        )

    def follow(self, page: str, world: World) -> str:
        """Run the page; what differs from it, "" for nothing."""
        differing = []
        coming = [world, *world.meanwhile]
        for command in asked(page):
            while coming and coming[0].comes(command):
                self._bring(coming.pop(0))
            differing.append(self._check(command, compared=command.line not in BY_CHANCE))
        assert coming == [], "the page has no command before which this becomes so"
        return "\n".join(text for text in differing if text)

    def _bring(self, meanwhile: Meanwhile) -> None:
        states = {**dict.fromkeys(meanwhile.running, "started"), **dict.fromkeys(meanwhile.finished, "finished")}
        for line, stdin in (
            (meanwhile.shell, ""),
            *((("kubectl apply -f -", yaml.safe_dump_all(meanwhile.objects)),) if meanwhile.objects else ()),
            *((f"fleet wait {name} --for {state} --timeout 150", "") for name, state in states.items()),
        ):
            done = self.run(line, stdin)
            assert done.returncode == 0, f"$ {line}\n{done.stdout}"

    def _check(self, command: Command, *, compared: bool) -> str:
        """What differs from the page; "" for nothing. A command that failed or only reads is repeated for a while, but
        not after another one differed: what follows on the page may follow from that."""
        deadline = time.monotonic() + self._patience_s
        while True:
            done = self.run(self._of_this_hub(command.line))
            lacking = missing(command.output or (), done.stdout) if compared else []
            failed = done.returncode != 0 and command.output is None
            if not (lacking or failed):
                if NAMES.match(command.line):
                    self._names.append(command.line)
                return ""
            repeated = done.returncode != 0 or READS.match(OF_WHOM.sub("", command.line))
            if not repeated or time.monotonic() > deadline:
                self._patience_s = 0.0
                return f"$ {command.line}\nstatus {done.returncode}, lacks {lacking} in:\n{done.stdout}"
            time.sleep(0.2)

    def _of_this_hub(self, line: str) -> str:
        """The command with the address of this hub, its names of queues, and the id of its newest decision."""
        line = ADDRESS.sub(self._address, line)
        if QUEUE.search(line):
            queues = self.run("kubectl get queues -n kube-queue -o name").stdout.split()
            names = {name.rpartition("-")[0]: name for name in (queue.rpartition("/")[2] for queue in queues)}
            line = QUEUE.sub(lambda found: names.get(found[1], found[0]), line)
        if DECISION.search(line):
            newest = json.loads(self.run("kubectl get --raw '/fleet/v1/decisions?limit=1'").stdout)["items"][0]["id"]
            line = DECISION.sub(f"/decisions/{newest}/", line)
        return line
