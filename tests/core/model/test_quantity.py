"""Quantities as text: read exactly, or refused, and written without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.values.quantity import LARGEST, BadQuantity, quantity, text_of, texts_of


@pytest.mark.parametrize(
    ("text", "resource", "value"),
    [
        ("500m", "cpu", 500),
        (2, "cpu", 2000),
        ("1Gi", "memory", 1 << 30),
        ("400000Gi", "memory", 400000 << 30),
        (10000000000, "kube-queue/max-jobs", 10**10),
        ("1.5Gi", "memory", 3 << 29),
        ("0.1", "nvidia.com/gpu", 1),
        ("1e3", "memory", 1000),
        ("9E", "memory", 9 * 10**18),
        ("100u", "cpu", 1),
        (0.5, "cpu", 500),
    ],
)
def test_quantities_are_read_exactly_and_rounded_up(text: object, resource: str, value: int) -> None:
    assert quantity(text, resource) == value


@pytest.mark.parametrize("text", ["", "abc", "1Xi", None, True, "Gi", "1 Gi x", [], "nan", "inf", "1e", "12E", " 8"])
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(BadQuantity):
        quantity(text)


@given(st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]), st.integers(0, LARGEST))
def test_an_amount_as_text_is_read_back(resource: str, amount: int) -> None:
    assert quantity(text_of(resource, amount), resource) == amount


def test_amounts_are_written_in_the_largest_unit_that_is_exact() -> None:
    assert texts_of({"cpu": 500, "memory": 3 << 30, "pods": 2048}) == {"cpu": "500m", "memory": "3Gi", "pods": "2048"}
