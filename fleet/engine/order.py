"""The order of a merged list: what the patch names stands in the patch's order, the rest stays where it was."""

from __future__ import annotations

from collections.abc import Sequence


def interleave(live: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """All keys of both, each once: `wanted` in its own order, and keys only in `live` as near as that allows to where
    they stood."""
    chosen = set(wanted)
    out: list[str] = []
    emitted: set[str] = set()
    at = 0
    for key in live:
        if key not in chosen:
            out.append(key)
        elif key not in emitted:
            # Everything that the patch puts before this key comes first.
            stop = wanted.index(key, at) + 1
            out.extend(wanted[at:stop])
            emitted.update(wanted[at:stop])
            at = stop
    out.extend(wanted[at:])
    return out
