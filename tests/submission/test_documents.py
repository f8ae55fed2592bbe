"""JSON objects after each other are told from YAML, and from what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.client.manifests import objects
from fleet.submission.documents import json_objects


@pytest.mark.parametrize(
    "text", ["a: 1", "{a: 1}", '{"a": 1}', '{"a": 1} {"b":', '{"a": 1} {"b": 2} c', "", "[" * 100_000]
)
def test_a_text_that_is_no_row_of_json_objects_stays_whole(text: str) -> None:
    assert json_objects(text) == [text]


def test_json_objects_after_each_other_are_told_apart() -> None:
    assert json_objects(' {"a": "}{"}\n{"b": 2}{"c": 3}\n') == ['{"a": "}{"}', '{"b": 2}', '{"c": 3}']


def test_a_program_reads_them_as_documents_too(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text('{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}\n' * 2)
    assert len(objects(path)) == 2
