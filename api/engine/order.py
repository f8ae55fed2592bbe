"""The order of a merged list: items of the patch stand in the patch's order, the rest stays where it was."""

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
            # The items that the patch puts before this key come first.
            stop = wanted.index(key, at) + 1
            out.extend(wanted[at:stop])
            emitted.update(wanted[at:stop])
            at = stop
    out.extend(wanted[at:])
    return out


def merge_sorted(live: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """As strategic merge patch orders a list: `wanted` in its own order, each key that only `live` has before the
    first wanted one that stood behind it; new keys come first."""
    place = {key: index for index, key in enumerate(live)}
    chosen = set(wanted)
    kept = [key for key in live if key not in chosen]
    out: list[str] = []
    at = 0
    for key in wanted:
        while at < len(kept) and key in place and place[kept[at]] < place[key]:
            out.append(kept[at])
            at += 1
        out.append(key)
    return out + kept[at:]
