"""The order of a merged list: items of the patch stand in the patch's order, the rest stays where it was."""

from __future__ import annotations

from collections.abc import Sequence


def interleave(live: Sequence[str], target: Sequence[str]) -> list[str]:
    """All keys of both, each once: `target` in its own order, and keys only in `live` as near as that allows to where
    they stood."""
    chosen = set(target)
    out: list[str] = []
    emitted: set[str] = set()
    at = 0
    for key in live:
        if key not in chosen:
            out.append(key)
        elif key not in emitted:
            # The items that the patch puts before this key come first.
            stop = target.index(key, at) + 1
            out.extend(target[at:stop])
            emitted.update(target[at:stop])
            at = stop
    out.extend(target[at:])
    return out


def merge_sorted(live: Sequence[str], target: Sequence[str]) -> list[str]:
    """As strategic merge patch orders a list: `target` in its own order, each key that only `live` has before the
    first one of `target` that stood behind it; new keys come first."""
    place = {key: index for index, key in enumerate(live)}
    chosen = set(target)
    live_only = [key for key in live if key not in chosen]
    out: list[str] = []
    at = 0
    for key in target:
        while at < len(live_only) and key in place and place[live_only[at]] < place[key]:
            out.append(live_only[at])
            at += 1
        out.append(key)
    return out + live_only[at:]
