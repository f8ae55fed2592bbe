"""The package `cel` without its command line, which would load a terminal library: a tenth of a process's start."""

from __future__ import annotations

import sys
from types import ModuleType

sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
import cel as cel  # noqa: E402
