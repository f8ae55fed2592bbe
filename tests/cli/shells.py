"""Commands that run a program in a pod, such as `fleet exec`."""

from __future__ import annotations

import os
import subprocess

from tests.cli.hub import BIN, Up


def run(up: Up, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`fleet`, with its options before the words of a command."""
    where = ["--data-dir", str(up.folder)]
    at = words.index("--") if "--" in words else len(words)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FLEET_") and k != "KUBECONFIG"}
    return subprocess.run(
        [str(BIN / "fleet"), *words[:at], *where, *words[at:]],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env=clean,
    )
