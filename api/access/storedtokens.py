"""Tokens of users in the store: an API process knows a new or a revoked token as soon as it sees the write.

A token is stored by its digest, so a dump of the database opens nothing. The administrator's own token is not among
them: it is the first line of `tokens.csv` in the data directory, and lets somebody in whatever the database holds.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path

import structlog

from api.access.auth import (
    AUTHENTICATED,
    AdministratorsToken,
    CheckedToken,
    Line,
    TokenName,
    digest_of,
    for_this_server,
    read_line,
)
from api.objects.writing import User
from fleet.values.ports import ABSENT, Body, Clock, Delete, Key, Put, Store, StoredObject, StoreUnavailable

GROUP, TOKENS, IMPORTS = "tokens.fleet.io", "tokens", "imports"
ID_CHARACTERS = 12  # of a digest: it names a token, and tells nothing of it
ASK_S = 0.05  # between two questions to the database about tokens that this process has not seen
AT_ONCE = 50  # of an import
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")  # of the tokens that `add` makes
log = structlog.get_logger(__name__)


class StoredTokens:
    """An Authenticator, and the tokens of `fleet token` and /fleet/v1/tokens. `own`: the file with the administrator's,
    None where there is none."""

    def __init__(self, store: Store, clock: Clock, own: Path | None = None) -> None:
        self._store, self._clock, self._own = store, clock, own
        self._last_question = float("-inf")

    async def user(self, token: str) -> User | None:
        key = _key(token)
        stored = self._store.peek(key)
        if stored is None and _FORM.fullmatch(token) and self._clock.monotonic() - self._last_question >= ASK_S:
            self._last_question = self._clock.monotonic()
            try:
                stored = await self._store.get(key)  # another process may just have made it
            except StoreUnavailable:
                return None
        if stored is None:
            return None
        name = _name(stored)
        return User(name.user, (*name.groups, AUTHENTICATED), name.uid) if self._clock.now() < name.expires else None

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        return for_this_server(await self.user(token), audiences)

    async def listed(self) -> list[TokenName]:
        """All tokens, the administrator's first, then by user. OSError where its file cannot be read."""
        await self._store.revision()
        own = await asyncio.to_thread(self._read)
        stored = [_name(one) for one in self._store.scan(GROUP, TOKENS)]
        return [*own[:1], *sorted(stored, key=lambda one: (one.user, one.id))]

    async def add(self, user: str, groups: Sequence[str], expires: float) -> tuple[TokenName, str]:
        """A new token, which ends at `expires` (epoch seconds; infinity: without an end), and its secret."""
        token = secrets.token_urlsafe(32)
        put = _put(Line(token, user, user, tuple(groups), expires))
        await self._store.commit([put])
        return TokenName(_id(put.key.name), user, user, tuple(groups), expires), token

    async def end(self, name: str) -> TokenName | None:
        """The token of this id, ended now. AdministratorsToken for the administrator's own."""
        if any(one.id == name for one in (await asyncio.to_thread(self._read))[:1]):
            raise AdministratorsToken(name)
        await self._store.revision()
        stored = next((one for one in self._store.scan(GROUP, TOKENS) if _id(one.key.name) == name), None)
        if stored is None:
            return None
        await self._store.commit([Delete(stored.key)])
        return _name(stored)

    async def take_over(self) -> None:
        """Store the tokens of the file, but for the administrator's: once for the hub, since one that was revoked
        afterwards must not come back."""
        marker = Key(GROUP, IMPORTS, "", "tokens.csv")
        if self._own is None or await self._store.get(marker) is not None:
            return
        puts = [_put(line) for line in (await asyncio.to_thread(self._lines))[1:]]
        for start in range(0, len(puts), AT_ONCE):  # what is there already was taken over by another process
            await asyncio.gather(*(self._store.commit([put]) for put in puts[start : start + AT_ONCE]))
        await self._store.commit([Put(marker, {"metadata": {"name": marker.name, "uid": marker.name}}, ABSENT)])
        if puts:
            log.info("the tokens of tokens.csv are in the database now: only its first line counts", tokens=len(puts))

    def _lines(self) -> list[Line]:
        text = self._own.read_text(encoding="utf-8", errors="replace") if self._own is not None else ""
        return [line for raw in text.split("\n") if (line := read_line(raw)) is not None]

    def _read(self) -> list[TokenName]:
        return [
            TokenName(_id(_key(line.token).name), line.user, line.uid, line.groups, line.expires, own=True)
            for line in self._lines()
        ]


def _key(token: str) -> Key:
    return Key(GROUP, TOKENS, "", digest_of(token).hex())


def _id(digest: str) -> str:
    return digest[:ID_CHARACTERS]


def _put(line: Line) -> Put:
    key = _key(line.token)
    body: Body = {
        "metadata": {"name": key.name, "uid": key.name},
        "user": line.user,
        "uid": line.uid,
        "groups": list(line.groups),
        "expires": line.expires if isfinite(line.expires) else None,
    }
    return Put(key, body, ABSENT)


def _name(stored: StoredObject) -> TokenName:
    body = stored.body
    expires = inf if body["expires"] is None else float(body["expires"])
    return TokenName(_id(stored.key.name), body["user"], body["uid"], tuple(body["groups"]), expires)
