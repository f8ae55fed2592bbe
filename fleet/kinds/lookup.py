"""Which interpreter reads which kind."""

from __future__ import annotations

from typing import Protocol

from fleet.kinds.interpreter import Interpreter
from fleet.kinds.jaxjob import JAXJOB
from fleet.kinds.job import JOB
from fleet.kinds.mpijob import MPIJOB
from fleet.kinds.paddlejob import PADDLEJOB
from fleet.kinds.pytorchjob import PYTORCHJOB
from fleet.kinds.tfjob import TFJOB
from fleet.kinds.xgboostjob import XGBOOSTJOB

_ALL: tuple[Interpreter, ...] = (PYTORCHJOB, TFJOB, MPIJOB, JAXJOB, PADDLEJOB, XGBOOSTJOB, JOB)
INTERPRETERS: dict[tuple[str, str], Interpreter] = {(i.group, i.kind): i for i in _ALL}


class Named(Protocol):
    """A `fleet.engine.kind.Kind`, as far as this package looks."""

    @property
    def group(self) -> str: ...

    @property
    def kind(self) -> str: ...


def interpreter_for(kind: Named) -> Interpreter | None:
    """The interpreter of a job kind; None for objects without pods."""
    return INTERPRETERS.get((kind.group, kind.kind))


def interpreter_of(api_version: object, kind: object) -> Interpreter | None:
    """The same by what a reference says: `apiVersion` and `kind`."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    group = api_version.rsplit("/", 1)[0] if "/" in api_version else ""
    return INTERPRETERS.get((group, kind))
