"""The two distributions that are made of this tree: which modules each has, and what pyproject.toml cannot say of them.

The order of the layers in pyproject.toml (tool.importlinter) says which package belongs where: those from `cli` on
down import nothing of those above, so they are installed without them. `api` and `migrations` belong to the hub.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from functools import cache
from itertools import dropwhile
from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))
from fleet.cli.optional import HUB, LIGHT  # noqa: E402
from fleet.values.release import NAME, running  # noqa: E402

# The packages that are divided, and the layer of each from which on downwards all belongs to the light distribution.
DIVIDED = {"fleet": "cli", "fleet.core": "quota"}
CONSOLE = "fleet/console/static/index.html"
DATA = {
    LIGHT: {"fleet": [NAME], "fleet.cli": ["*.json"], "fleet.client": ["py.typed"], "fleet.kinds": ["declared/*.yaml"]},
    HUB: {
        "api": ["kinds/*.yaml"],
        "api.wire.protobuf": ["*.txt"],
        "fleet.admission": ["*.yaml", "kinds/*.yaml"],
        "fleet.console": ["static/*", "static/assets/*"],
        "fleet.migrations": ["alembic.ini", "*/script.py.mako"],
    },
}


def layers(package: str) -> list[list[str]]:
    """The parts of a package by layer, the upper first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (ours,) = [one["layers"] for one in contracts if one.get("containers") == [package]]
    return [[name.strip() for name in layer.split("|")] for layer in ours]


@cache
def light() -> frozenset[str]:
    """The packages and modules that the light distribution has, but for the divided ones."""
    found = set()
    for package, top in DIVIDED.items():
        below = dropwhile(lambda layer: top not in layer, layers(package))  # noqa: B023  # used up at once
        found |= {f"{package}.{name}" for layer in below for name in layer}
    return frozenset(found)


def distribution_of(module: str) -> str:
    """The distribution that has a module or package, by its dotted name; of a divided one, its `__init__`."""
    package = max((one for one in DIVIDED if f"{module}.".startswith(f"{one}.")), key=len, default="")
    first = module.removeprefix(package).removeprefix(".").partition(".")[0]
    return LIGHT if package and (first in ("", "__init__") or f"{package}.{first}" in light()) else HUB


def arguments(distribution: str, where: str) -> dict[str, Any]:
    """What `setup` is told of a distribution. `where`: the way from its pyproject.toml to the root of the tree."""
    sources = {f"fleet.{name}": f"{where}/{name.replace('.', '/')}" for name in _found(where, "migrations*")}
    packages = [name for name in _found(where, "fleet*") if distribution_of(name) == distribution]
    if distribution == HUB:
        packages += [*DIVIDED, *_found(where, "api*"), *sources]
    return {
        "version": running().version,
        "packages": packages,
        "package_dir": {"": where} | (sources if distribution == HUB else {}),
        "package_data": DATA[distribution],
        "include_package_data": False,
        "cmdclass": {"build_py": _modules(distribution), "sdist": Sources},
    }


def _found(where: str, pattern: str) -> list[str]:
    packages: list[str] = find_namespace_packages(where, include=[pattern])
    return packages


def _write(tree: str) -> None:
    """Write the release into a tree that is going to be packed."""
    file = Path(tree) / "fleet" / NAME
    file.unlink()  # it may be a link to the file of the checkout
    file.write_text(running().document)


def _modules(distribution: str) -> type[build_py]:
    class Modules(build_py):
        def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
            found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
            return [
                one for one in found if package not in DIVIDED or distribution_of(f"{package}.{one[1]}") == distribution
            ]

        def run(self) -> None:
            if Path(self.build_lib) == Path("build", "lib"):  # the default, as every wheel is built
                shutil.rmtree(self.build_lib, ignore_errors=True)  # else the wheel has what an earlier build left there
            super().run()
            if distribution == LIGHT and not self.editable_mode:
                _write(self.build_lib)
            if distribution == HUB and not self.editable_mode and not (ROOT / CONSOLE).exists():
                self.warn(f"{CONSOLE} is missing: this hub has no console (make console, then build it again)")

    return Modules


class Sources(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        _write(base_dir)
