"""The definitions of built-in types, read once a process from the package that carries them.

They are a megabyte and a half of JSON that another project maintains; copying them here would only let them grow old.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import orjson

from fleet.engine.schemas import Definitions

_PACKAGE = "kubernetes_validate"
_FILE = ("kubernetes-json-schema", "v1.36.0-local", "_definitions.json")


@cache
def definitions() -> Definitions:
    """Every built-in definition, by name; each is resolved when it is first asked for. About 10 ms the first time."""
    return Definitions(orjson.loads(files(_PACKAGE).joinpath(*_FILE).read_bytes())["$defs"])
