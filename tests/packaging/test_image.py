"""A hub as compose runs it: by a user who may write into a volume and nowhere else. What the Dockerfile installs is
tested in test_dockerfile.py."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.hub import Up
from tests.docs.test_docs import ROOT
from tests.packaging.image import stages

OTHER = "nobody"
# Another user who may read all that we may, since our Python may lie in our home, and write nothing of ours.
AS_OTHER = (
    (
        "setpriv",
        f"--reuid={OTHER}",
        f"--regid={pwd.getpwnam(OTHER).pw_gid}",
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
        "--securebits=+no_setuid_fixup",
    )
    if os.geteuid() == 0
    else ()
)


@pytest.fixture
def volume() -> Iterator[Path]:
    """A folder that only the user of the container may write, as the volume of compose."""
    folder = Path(tempfile.mkdtemp(prefix="fleet-volume-"))
    if AS_OTHER:
        shutil.chown(folder, OTHER)
    yield folder
    shutil.rmtree(folder)


def served(up: Up, path: str) -> tuple[int, str]:
    trust = ssl.create_default_context(cafile=up.folder / "pki" / "ca.crt")
    with urllib.request.urlopen(up.hub.client.access.server + path, context=trust, timeout=20) as answer:
        return answer.status, answer.read().decode()


def check_hub(fleet: Path, volume: Path) -> None:
    """A hub of this program, of a user who may write into the volume alone, serves the console and is healthy."""
    tried = subprocess.run([*AS_OTHER, "touch", fleet.with_name("written")], capture_output=True, check=False)
    assert (tried.returncode == 0) == (not AS_OTHER)
    up = Up(volume / "data", "--members", "1", program=(*AS_OTHER, str(fleet)), HOME=str(volume))
    try:
        owner = (up.folder / "hub-id").stat().st_uid
        assert owner == (pwd.getpwnam(OTHER).pw_uid if AS_OTHER else os.geteuid())
        assert served(up, "/console")[0] == 200
        status, page = served(up, "/console/")
        assert (status, "<script" in page) == (200, True)
        assert served(up, "/readyz")[0] == 200
        health = json.loads(dict(stages()[-1].steps)["HEALTHCHECK"].partition(" CMD ")[2])
        port = up.hub.client.access.server.rpartition(":")[2]
        asked = health[2].replace("/var/lib/fleet/data", str(up.folder)).replace(":6440", f":{port}")
        python = fleet.with_name("python")
        for text, status in ((asked, 0), (asked.replace("/readyz", "/nowhere"), 1)):
            done = subprocess.run([*AS_OTHER, python, "-c", text], capture_output=True, timeout=30, check=False)
            assert done.returncode == status, done.stderr
    finally:
        assert up.stop(signal.SIGTERM) == 0, up.errors.read_text()


def test_a_hub_of_a_user_who_may_write_only_its_data_serves_the_console(whole: Path, volume: Path) -> None:
    check_hub(whole / "bin" / "fleet", volume)


def test_compose_gives_the_hub_nothing_to_write_but_its_volume() -> None:
    hub = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["hub"]
    steps = stages()[-1].steps
    (volume,) = [text for word, text in steps if word == "VOLUME"]
    assert (hub["read_only"], hub["tmpfs"], hub["volumes"]) == (True, ["/tmp"], [f"hub:{volume}"])
    assert (hub["cap_drop"], hub["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    words = [word for word, _ in steps]
    assert "RUN" not in words[words.index("USER") :] and ("USER", "fleet") in steps
