"""What pyproject.toml cannot say: the version, and that `migrations` is `fleet/migrations` where Fleet is installed."""

import sys
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent))
from fleet.release import NAME, running

MIGRATIONS = find_namespace_packages(include=["migrations*"])


def write(tree: str) -> None:
    """Write the release into a tree that is going to be packed."""
    file = Path(tree) / "fleet" / NAME
    file.unlink()  # it may be a link to the file of the checkout
    file.write_text(running().document)


class Modules(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write(self.build_lib)


class Sources(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write(base_dir)


setup(
    version=running().version,
    packages=[*find_namespace_packages(include=["fleet*", "api*"]), *(f"fleet.{name}" for name in MIGRATIONS)],
    package_dir={"fleet.migrations": "migrations"},
    cmdclass={"build_py": Modules, "sdist": Sources},
)
