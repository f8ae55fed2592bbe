"""The lines of `tokens.csv`, as the commands about tokens read and write them.

The API reads the file by itself (api/auth.py), and its routes change it by the same class. A line keeps its text until
its token is revoked, comments included.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite

from api.auth import AdministratorsToken, Line, TokenName, read_line
from fleet.cli import pki
from fleet.cli.datadir import DataDir, add_token
from fleet.cli.failure import Failure
from fleet.model.times import rfc3339

ID_CHARACTERS = 12
TTL_DAYS_MAX = 36_500
LOCK_TRIES, LOCK_WAIT_S = 100, 0.05
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TTL = re.compile(r"(?:(\d{1,6})([dhms]))+")


class TokenLines:
    """The tokens of a data directory: for the commands, and for the routes of each API process (api/v1/tokens.py)."""

    def __init__(self, data: DataDir) -> None:
        self._data = data

    def listed(self) -> list[TokenName]:
        """The tokens of the file, in its order. Lines that hold none are left out."""
        return [token for _, token in self._numbered()]

    def add(self, user: str, groups: Sequence[str], expires: float) -> tuple[TokenName, str]:
        """A new token, which ends at `expires` (epoch seconds; infinity: without an end), and its secret."""
        end = rfc3339(expires) if isfinite(expires) else ""
        with self._held():
            secret = add_token(self._data, user, tuple(groups), expires=end)
        return TokenName(id_of(secret), Line(secret, user, user, tuple(groups), expires)), secret

    def end(self, name: str) -> TokenName | None:
        """The token of this id, out of the file now. AdministratorsToken for the administrator's own."""
        gone = self._without(lambda token: token.id == name)
        return gone[0] if gone else None

    def end_all(self, user: str) -> list[TokenName]:
        """The tokens of a user, out of the file now. AdministratorsToken where the administrator's own is one."""
        return self._without(lambda token: token.line.user == user)

    def _without(self, which: Callable[[TokenName], bool]) -> list[TokenName]:
        with self._held():
            gone = {number: token for number, token in self._numbered() if which(token)}
            for token in gone.values():
                if token.own:
                    raise AdministratorsToken(token.id)
            if gone:
                lines = self._data.tokens.read_bytes().split(b"\n")
                kept = [line for number, line in enumerate(lines) if number not in gone]
                pki.write_private(self._data.tokens, b"\n".join(kept))
        return list(gone.values())

    def _numbered(self) -> list[tuple[int, TokenName]]:
        """Each token with the number of its line. The first is the administrator's."""
        found: list[tuple[int, TokenName]] = []
        for number, text in enumerate(self._data.tokens.read_text(encoding="utf-8", errors="replace").split("\n")):
            line = read_line(text)
            if line is not None:
                found.append((number, TokenName(id_of(line.token), line, own=not found)))
        return found

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Alone with the file among all processes of the machine. OSError where another one holds it for too long."""
        with self._data.tokens.with_name(self._data.tokens.name + ".lock").open("a") as lock:
            for attempt in range(LOCK_TRIES):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if attempt == LOCK_TRIES - 1:
                        raise OSError("another process holds its lock") from None
                    time.sleep(LOCK_WAIT_S)
            yield


def id_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:ID_CHARACTERS]


def revoke(data: DataDir, name: str) -> list[TokenName]:
    """Take the token of this id out of the file, or all tokens of this user. Raises Failure."""
    tokens = TokenLines(data)
    try:
        one = tokens.end(name)
        gone = [one] if one is not None else tokens.end_all(name)
    except AdministratorsToken as error:
        raise Failure(
            f"{name}: {error} is the administrator's token, which {data.kubeconfig} is made with: make another"
            f" user of system:masters, and take the first line out of {data.tokens} by hand"
        ) from None
    if not gone:
        raise Failure(f"{name}: no token has this id or this user (fleet token list)")
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
