"""The hub: all that the light distribution does not have, which it needs in exactly its version."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from distributions import arguments
from fleet.cli.optional import HUB, LIGHT

lines = [line.partition("#")[0].strip() for line in Path("requirements.txt").read_text().splitlines()]
found = arguments(HUB, "..")
setup(**found, install_requires=[f"{LIGHT}=={found['version']}", *filter(None, lines)])
