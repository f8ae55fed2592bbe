"""A hub as compose runs it: by a user who may write into a volume and nowhere else."""

from __future__ import annotations

import json
import os
import pwd
import signal
import ssl
import subprocess
import urllib.request
from pathlib import Path

from tests.cli.hub import Up
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
