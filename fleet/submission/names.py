"""Names for jobs that their users did not name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of the random end of a name: as Kubernetes has it, they spell no words
END_LENGTH = 5
STEM_MOST = 30
_SCRIPT = re.compile(r"\.(py|sh|bash|ipynb)$")


def stem(command: Sequence[str], otherwise: str = "job") -> str:
    """A word for the command: the script or module that it runs, else its program."""
    words = list(command)
    script = next((word for word in words if _SCRIPT.search(word)), "")
    module = next((after for word, after in pairwise(words) if word == "-m"), "")
    word = _SCRIPT.sub("", script) or module or (words[0] if words else otherwise)
    last = word.rstrip("/").rpartition("/")[2].rpartition(".")[2]
    plain = re.sub(r"[^a-z0-9]+", "-", last.lower()).lstrip("-0123456789")
    return plain[:STEM_MOST].rstrip("-") or otherwise
