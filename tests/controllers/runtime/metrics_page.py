"""The metrics as their page in docs/reference lists them."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"


def listed_metrics() -> dict[str, tuple[set[str], str]]:
    """Labels and type of each metric of the page."""
    rows = re.findall(
        r"^\| ((?:`fleet_\w+`(?:, )?)+) \| ((?:`\w+`(?:, )?)*) ?\| (\w+) \|", PAGE.read_text(), re.MULTILINE
    )
    return {
        name: (set(re.findall(r"`(\w+)`", labels)), type_)
        for names, labels, type_ in rows
        for name in re.findall(r"\w+", names)
    }


def stated_rows() -> dict[str, int]:
    """The most rows of each metric, where the page states a number."""
    rows = re.findall(r"^\| ((?:`fleet_\w+`(?:, )?)+) \|[^|]*\| \w+ \| ([\d,]+) \|", PAGE.read_text(), re.MULTILINE)
    return {name: int(most.replace(",", "")) for names, most in rows for name in re.findall(r"\w+", names)}


def assert_told(text: str, listed: dict[str, tuple[set[str], str]]) -> None:
    told = [f for f in text_string_to_metric_families(text) if not f.name.endswith("_created")]
    told = [f for f in told if not f.name.startswith("process_")]
    names = {f.name + ("_total" if f.type == "counter" else ""): f for f in told}
    assert {name: family.type for name, family in names.items()} == {name: type_ for name, (_, type_) in listed.items()}
    for name, family in names.items():
        labels = {label for one in family.samples for label in one.labels} - {"le"}
        assert labels == listed[name][0] or not family.samples, name
