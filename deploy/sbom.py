"""Writes what the image installs as a CycloneDX document, from the lock alone: the same lock makes the same bytes.

deploy/sbom.py LOCK INTO
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PINNED = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+?))?\s*\\?$"
)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
VIA = re.compile(r"    #(?: via)?\s+(?:(?P<project>\S+ \(pyproject\.toml\)|-r \S+)|(?P<name>[A-Za-z0-9._-]+))$")
PROJECT = "."  # stands for the project itself among those that need a package
LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "sys_platform": "linux",
}


@dataclass(frozen=True, slots=True)
class Pin:
    """A package of the lock. `needed_by`: the packages that ask for it."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{canonicalize_name(self.name)}@{self.version}"


def python_of_the_image() -> str:
    found = re.search(r"^FROM python:(\d+\.\d+)", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("deploy/Dockerfile names no version of Python")
    return found[1]


def pins(lock: str, python: str, machine: str = "x86_64") -> Iterator[Pin]:
    """The packages that are installed on Linux with this Python. SystemExit for a lock without hashes."""
    here = LINUX | {
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
    }
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        pinned = PINNED.match(lines[0])
        if pinned is None:
            raise SystemExit(f"not a pinned package: {lines[0]}")
        hashes = tuple(HASH.findall(block))
        if not hashes:
            raise SystemExit(f"{pinned['name']} has no hash")
        if pinned["marker"] and not Marker(pinned["marker"]).evaluate(here):
            continue
        via = [found for line in lines if (found := VIA.match(line))]
        needed_by = tuple(PROJECT if found["project"] else canonicalize_name(found["name"]) for found in via)
        yield Pin(pinned["name"], pinned["version"], hashes, needed_by)


def component(pin: Pin) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": content} for content in pin.hashes]
    return {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        # Of each file that pip may take, so no hash is that of the component.
        "externalReferences": [{"type": "distribution", "url": pin.purl, "hashes": hashes}],
    }


def document(lock: str, name: str, version: str, python: str) -> dict[str, Any]:
    installed = sorted(pins(lock, python), key=lambda pin: pin.purl)
    own = f"pkg:pypi/{canonicalize_name(name)}@{version}"
    refs = {PROJECT: own} | {canonicalize_name(pin.name): pin.purl for pin in installed}
    needs: dict[str, list[str]] = {ref: [] for ref in sorted(refs.values())}
    for pin in installed:
        for user in {refs[one] for one in pin.needed_by if one in refs}:
            needs[user].append(pin.purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{own} python {python} {lock}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [component(pin) for pin in installed],
        "dependencies": [{"ref": ref, "dependsOn": needed} for ref, needed in needs.items()],
    }


if __name__ == "__main__":
    source, into = map(Path, sys.argv[1:])
    project = tomllib.loads((ROOT / "hub" / "pyproject.toml").read_text())["project"]["name"]
    made = document(source.read_text(), project, metadata.version(project), python_of_the_image())
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(json.dumps(made, indent=2) + "\n")
