"""A pod's requests, as kube-scheduler computes them: stories, and a reference for sums."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.model.amounts import Amounts
from fleet.kinds.requests import pod_requests
from fleet.values.quantity import LARGEST, BadQuantity, quantity

# Examples are few and small; a loaded machine must not make them fail.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

Body = dict[str, Any]


def container(cpu: int = 0, *, limit: int = 0, sidecar: bool = False) -> Body:
    resources: Body = {}
    if cpu:
        resources["requests"] = {"cpu": f"{cpu}m"}
    if limit:
        resources["limits"] = {"cpu": f"{limit}m"}
    return {"resources": resources, **({"restartPolicy": "Always"} if sidecar else {})}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container(100), container(200)]}, 300, id="containers add up"),
        pytest.param({"containers": [container(limit=500)]}, 500, id="a limit stands for a missing request"),
        pytest.param({"containers": [container(100, limit=500)]}, 100, id="a request wins over its limit"),
        pytest.param({"containers": [container(100)], "initContainers": [container(400)]}, 400, id="the largest init"),
        pytest.param(
            {"containers": [container(300)], "initContainers": [container(100), container(200)]},
            300,
            id="init containers run one by one",
        ),
        pytest.param(
            {"containers": [container(300)], "initContainers": [container(50, sidecar=True)]},
            350,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [container(300)], "initContainers": [container(50, sidecar=True), container(400)]},
            450,
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(
            {"containers": [container(300)], "initContainers": [container(400), container(50, sidecar=True)]},
            400,
            id="and not beside earlier ones",
        ),
        pytest.param({"containers": [container(100)], "overhead": {"cpu": "50m"}}, 150, id="overhead comes on top"),
        pytest.param(
            {"containers": [container(100)], "resources": {"requests": {"cpu": "1"}}}, 1000, id="the pod's own amount"
        ),
        pytest.param(
            {"containers": [container(100)], "resources": {"limits": {"cpu": "1"}}},
            100,
            id="the pod's own limit asks for nothing where a container asks",
        ),
        pytest.param(
            {"containers": [{}], "initContainers": [container(40)], "resources": {"limits": {"cpu": "1"}}},
            40,
            id="nor where an init container asks",
        ),
        pytest.param(
            {"containers": [{}], "resources": {"limits": {"cpu": "1"}}},
            1000,
            id="the pod's own limit stands for a request that nothing names",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "300u"}}}] * 3},
            1,
            id="the sum is rounded up, not its parts",
        ),
    ],
)
def test_what_a_pod_asks_for(spec: Body, cpu: int) -> None:
    assert pod_requests(spec) == Amounts.of({"cpu": cpu, "pods": 1})


_SCALES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "e3": Fraction(1000),
    "E-2": Fraction(1, 100),
}


@UNHURRIED
@given(
    whole=st.integers(0, 10**6),
    digits=st.text("0123456789", max_size=6),
    suffix=st.sampled_from(sorted(_SCALES)),
    cpu=st.booleans(),
)
def test_a_quantity_is_its_number_times_its_scale_rounded_up(whole: int, digits: str, suffix: str, cpu: bool) -> None:
    text = f"{whole}.{digits}{suffix}" if digits else f"{whole}{suffix}"
    number = Fraction(f"{whole}.{digits or 0}") * _SCALES[suffix] * (1000 if cpu else 1)
    resource = "cpu" if cpu else "memory"
    if ceil(number) <= LARGEST:
        assert quantity(text, resource) == ceil(number)
    else:
        with pytest.raises(BadQuantity):
            quantity(text, resource)


@UNHURRIED
@given(st.one_of(st.text(max_size=12), st.none(), st.booleans(), st.lists(st.integers(), max_size=1), st.floats()))
def test_anything_is_a_quantity_or_refused(value: object) -> None:
    try:
        amount = quantity(value)
    except BadQuantity as error:
        assert str(error).startswith(("must be", "is larger"))
    else:
        assert abs(amount) <= LARGEST


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1GI", "1_000", "Infinity", "1e999999999", "0x10", "--1", "1e", "1e3Ki", "\u0661"]
)
def test_what_is_no_quantity_in_kubernetes_is_none_here(text: str) -> None:
    with pytest.raises(BadQuantity):
        quantity(text)
