"""What pyproject.toml cannot say: `migrations` of the tree is `fleet/migrations` where Fleet is installed."""

from setuptools import find_namespace_packages, setup

MIGRATIONS = find_namespace_packages(include=["migrations*"])
setup(
    packages=[*find_namespace_packages(include=["fleet*", "api*"]), *(f"fleet.{name}" for name in MIGRATIONS)],
    package_dir={"fleet.migrations": "migrations"},
)
