"""The definitions of built-in types, read once a process from the package that carries them.

The definitions are a megabyte and a half of JSON that another project maintains; copying them here would only let them
grow old. The package is found but not imported: its own imports would cost more than reading the file.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import orjson

from api.engine.schemas import Definitions

_PACKAGE = "kubernetes_validate"
_FILE = Path("kubernetes-json-schema") / "v1.36.0-local" / "_definitions.json"


@cache
def definitions() -> Definitions:
    """Every built-in definition, by name; each is resolved when it is first asked for. About 10 ms the first time."""
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {_PACKAGE} is not installed")
    folder = Path(spec.submodule_search_locations[0])
    return Definitions(orjson.loads((folder / _FILE).read_bytes())["$defs"])
