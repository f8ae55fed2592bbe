"""The light distribution. Where distributions.py says more, the hub's is in hub/."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).parent))
from distributions import LIGHT, arguments

setup(**arguments(LIGHT, "."))
