"""The lines of `tokens.csv`, as the commands about tokens read and write them.

The API reads the file by itself (api/auth.py). A line keeps its text until its token is revoked, comments included.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from api.auth import Line, read_line
from fleet.cli import pki
from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure

ID_CHARACTERS = 12
TTL_DAYS_MAX = 36_500
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TTL = re.compile(r"(?:(\d{1,6})([dhms]))+")


@dataclass(frozen=True)
class Listed:
    """A token of the file, by a name that tells nothing of it."""

    number: int
    id: str
    line: Line


def listed(data: DataDir) -> list[Listed]:
    """The tokens of the file, in its order. Lines that hold none are left out."""
    found = []
    for number, text in enumerate(data.tokens.read_text(encoding="utf-8", errors="replace").split("\n")):
        line = read_line(text)
        if line is not None:
            found.append(Listed(number, id_of(line.token), line))
    return found


def id_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:ID_CHARACTERS]


def revoke(data: DataDir, name: str) -> list[Listed]:
    """Take the token of this id out of the file, or all tokens of this user. Raises Failure."""
    tokens = listed(data)
    gone = [token for token in tokens if token.id == name] or [token for token in tokens if token.line.user == name]
    if not gone:
        raise Failure(f"{name}: no token has this id or this user (fleet token list)")
    if gone[0].number == tokens[0].number:
        raise Failure(
            f"{name}: {gone[0].id} is the administrator's token, which {data.kubeconfig} is made with: make another"
            f" user of system:masters, and take the first line out of {data.tokens} by hand"
        )
    numbers = {token.number for token in gone}
    lines = data.tokens.read_bytes().split(b"\n")
    pki.write_private(data.tokens, b"\n".join(line for number, line in enumerate(lines) if number not in numbers))
    return gone


def ttl_seconds(text: str) -> int:
    """The seconds of 90s, 12h, 30d or 1d12h. Raises Failure."""
    seconds = 0
    if _TTL.fullmatch(text):
        seconds = sum(int(amount) * _SECONDS[unit] for amount, unit in re.findall(r"(\d+)([dhms])", text))
    if not seconds:
        raise Failure(f"--ttl {text[:50]}: not a time such as 12h or 30d")
    if seconds > TTL_DAYS_MAX * _SECONDS["d"]:
        raise Failure(f"--ttl {text[:50]}: longer than {TTL_DAYS_MAX}d; leave --ttl out for a token without an end")
    return seconds
