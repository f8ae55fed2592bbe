"""The light distribution; the hub is made in hub/, and distributions.py knows both."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent))
from distributions import arguments
from fleet.cli.optional import LIGHT

setup(**arguments(LIGHT, "."))
