"""A hook of MkDocs: a link from a page to a file of the source becomes the name of that file.

The pages are read in the repository too, where such a link works. The site has the pages alone.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")


def on_page_markdown(markdown: str, /, *, page: Any, **_: Any) -> str:
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        text, target = link[1], link[2].partition("#")[0]
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path.startswith("docs/"):
            return link[0]
        return text if path in text else f"{text} (`{path}` in the source)"

    return _LINK.sub(replaced, markdown)
