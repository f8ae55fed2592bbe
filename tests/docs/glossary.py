"""The rows of the glossary."""

from __future__ import annotations

import re

from tests.checkout import DOCS

ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| (?P<peers>[^|]+) \| (?P<where>[^|]+) \|$", re.MULTILINE)


def rows() -> list[dict[str, str]]:
    """Each term with its meaning, the words of peers, and the files where it is at home."""
    entries = [row.groupdict() for row in ROW.finditer((DOCS / "glossary.md").read_text())]
    return [row for row in entries if row["term"] != "term"]
