"""Which specs pass on a kube-apiserver without nodes, and which of them are exceptions on the hub.

`real.yaml` is made by a run on the test bed's kube-apiserver. `exceptions.yaml` is written by hand: reasons, and below
each the names of specs. `aggregation` and `kubelet` are apart, since a control plane of its own has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.conformance.suite import PASSED, SERIAL, Outcome

HERE = Path(__file__).parent
REAL = HERE / "real.yaml"
EXCEPTIONS = HERE / "exceptions.yaml"
APART = ("aggregation", "kubelet")
QUICK_S = 5.0  # the longest spec of the short form, in seconds on the real one


@dataclass(frozen=True)
class Exceptions:
    """Why specs may fail on the hub, by name: `apart` for what they need, `others` for what the hub lacks."""

    apart: Mapping[str, str]
    others: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        return name in self.others or name in self.apart


def passing() -> dict[str, float]:
    """Seconds on the real one, by name."""
    found: dict[str, float] = yaml.safe_load(REAL.read_text())["passing"]
    return found


def exceptions() -> Exceptions:
    written = yaml.safe_load(EXCEPTIONS.read_text())
    apart = {name: why for place in APART for name, why in _by_name(written[place]).items()}
    return Exceptions(apart, _by_name(written["others"]))


def _by_name(reasons: Mapping[str, list[str]] | None) -> dict[str, str]:
    return {name: why for why, names in (reasons or {}).items() for name in names}


def quick() -> list[str]:
    """The short form: what passes on both, is quick and wants no server of its own."""
    left_out = exceptions()
    return [name for name, s in passing().items() if s < QUICK_S and name not in left_out and not SERIAL.search(name)]


def record(outcomes: Mapping[str, Outcome]) -> None:
    """Write `real.yaml`: the names that passed, with seconds, and the others by how they ended."""
    ended: dict[str, dict[str, float] | list[str]] = {
        "passing": {name: round(one.seconds, 1) for name, one in sorted(outcomes.items()) if one.state == PASSED}
    }
    for state in sorted({one.state for one in outcomes.values()} - {PASSED}):
        ended[state] = sorted(name for name, one in outcomes.items() if one.state == state)
    REAL.write_text(yaml.safe_dump(ended, sort_keys=False, width=10_000, allow_unicode=True))
