"""Each decision is in the list, and the list says of each number without a page why it has none."""

from __future__ import annotations

import re

from tests.checkout import DOCS

FOLDER = DOCS / "decisions"


def test_the_list_has_every_page_under_its_number() -> None:
    listed = re.findall(r"^(\d+)\. \[[^\]]+\]\((\d{4}-[\w-]+\.md)\)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert [(f"{int(number):04}", page) for number, page in listed] == [
        (page.name[:4], page.name) for page in sorted(FOLDER.glob("0*.md"))
    ]


def test_the_list_names_every_number_that_has_no_page() -> None:
    before = (FOLDER / "README.md").read_text().partition("\n1. ")[0]
    taken = {int(page.name[:4]) for page in FOLDER.glob("0*.md")}
    missing = set(range(1, max(taken))) - taken
    assert [number for number in sorted(missing) if not re.search(rf"\b{number}\b", before)] == []
