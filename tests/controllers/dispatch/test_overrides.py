"""Manifests after overrides."""

from __future__ import annotations

import pytest

from fleet.controllers.dispatch.overrides import image_changed


@pytest.mark.parametrize(
    ("image", "entry", "changed"),
    [
        ("train:1", {"component": "Registry", "operator": "add", "value": "r.example"}, "r.example/train:1"),
        ("r.example/a/train:1", {"component": "Registry", "operator": "remove"}, "a/train:1"),
        ("localhost:5000/train", {"component": "Tag", "operator": "add", "value": "2"}, "localhost:5000/train:2"),
        ("a/train:1", {"component": "Repository", "operator": "replace", "value": "b/run"}, "b/run:1"),
        ("train@sha256:ab", {"component": "Tag", "operator": "replace", "value": "sha256:cd"}, "train@sha256:cd"),
    ],
)
def test_images_change_by_their_parts(image: str, entry: dict[str, str], changed: str) -> None:
    assert image_changed(image, entry) == changed
