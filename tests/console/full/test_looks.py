"""Each page in the dark, and on a telephone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.cli.hub import Up
from tests.console.browser import PAGES, looked_at, violations

pytestmark = pytest.mark.xdist_group("console")


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation_in_the_dark(admin: Page, up: Up, name: str) -> None:
    admin.emulate_media(color_scheme="dark")
    try:
        looked_at(admin, up, name)
        assert violations(admin) == []
    finally:
        admin.emulate_media(color_scheme="light")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_telephone(admin: Page, up: Up, name: str) -> None:
    admin.set_viewport_size({"width": 360, "height": 740})
    try:
        looked_at(admin, up, name)
        assert admin.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        admin.set_viewport_size({"width": 1280, "height": 720})
