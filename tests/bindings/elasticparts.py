"""Bindings of jobs with a least size in some of their components."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from fleet.values.ports import Body


class Part(NamedTuple):
    """A component that asks for `least + above * step` pods; `least` 0: it has a fixed size, of `above` pods."""

    least: int
    above: int
    step: int


PARTS = st.lists(st.builds(Part, st.integers(0, 4), st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=3)


def binding(parts: list[Part]) -> Body:
    components = []
    for number, (least, above, step) in enumerate(parts):
        requests = {"resourceRequest": {"cpu": "1"}}
        ranged = {"minReplicas": least * step, "replicaStep": step} if least else {}
        replicas = (least + above) * step if least else above
        components.append({"name": f"c{number}", "replicas": replicas, "replicaRequirements": requests, **ranged})
    return {"metadata": {"name": "b"}, "spec": {"components": components}}
