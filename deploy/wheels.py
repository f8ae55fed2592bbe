"""Asks the package index whether each package of the locks has a wheel for each processor that the image is built for.

deploy/wheels.py LOCK…

pip chooses the files as it would in the image, and downloads none. Each has to be one whose hash is in a lock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sbom import Pin, pins, python_of_the_image

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # Docker's name of a platform, and Python's
GLIBC_MINOR = 36  # of the base image's Debian, at least: 2.36


def chosen(wanted: Sequence[Pin], machine: str, python: str) -> dict[str, tuple[str, str]]:
    """The file that pip chooses for each package, and its hash. SystemExit where one has no wheel, which pip names."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 16, -1)]
    tags += [f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}", f"linux_{machine}"]
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "wanted.txt"
        lines.write_text("".join(f"{pin.name}=={pin.version}\n" for pin in wanted))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        # The lock holds for this Python, and pip would compare with the one that it runs on.
        command += ["--ignore-requires-python", "--only-binary", ":all:", "--python-version", python]
        command += ["--target", folder, "--report", "-"]
        command += [word for tag in tags for word in ("--platform", tag)]
        done = subprocess.run([*command, "-r", str(lines)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"pip chooses no wheels for {machine}")
    return {
        one["metadata"]["name"]: (
            one["download_info"]["url"].rpartition("/")[2],
            one["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for one in json.loads(done.stdout)["install"]
    }


def main(*locks: str) -> int:
    python, lacking = python_of_the_image(), 0
    text = "\n".join(Path(lock).read_text() for lock in locks)
    for platform, machine in MACHINES.items():
        wanted = list(pins(text, python, machine))
        files = chosen(wanted, machine, python)
        strange = [name for name, sha256 in files.values() if not any(sha256 in pin.hashes for pin in wanted)]
        lacking += len(strange) + len(wanted) - len(files)
        print(f"linux/{platform}, Python {python}: {len(files)} wheels for {len(wanted)} packages")
        for name in strange:
            print(f"  {name} is in no lock", file=sys.stderr)
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
