"""Every kubectl that the tests run: the test bed's own, and each other version that the machine happens to have.

Users bring kubectls of all ages, and old ones ask for other things than new ones. The machine's are those on PATH, and
those that lie beside them under a name with their version (`kubectl.1.27`), as some distributions ship them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from tests.testbed.build import KUBERNETES, parts

OWN = ".".join(KUBERNETES.split(".")[:2])


def kubectls() -> dict[str, str]:
    """Path by minor version ("1.36"), oldest first; never empty, since the test bed builds one."""
    found: dict[str, str] = {}
    on_path = shutil.which("kubectl")
    if on_path is not None:
        for beside in Path(on_path).resolve().parent.glob("kubectl.*"):
            named = re.fullmatch(r"kubectl\.(1\.\d+)", beside.name)
            if named:
                found[named[1]] = str(beside)
        found.setdefault(_version(on_path), on_path)
    found[OWN] = str(parts().binary("kubectl"))
    return dict(sorted(found.items(), key=lambda item: int(item[0].split(".")[1])))


def _version(kubectl: str) -> str:
    done = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True)
    git_version: str = json.loads(done.stdout)["clientVersion"]["gitVersion"]
    named = re.match(r"v(1\.\d+)", git_version)
    assert named is not None, git_version
    return named[1]
