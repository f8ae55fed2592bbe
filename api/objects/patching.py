"""Which patch a media type asks for, and whether a kind takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from api.engine import patch as patches
from api.engine.kind import Kind
from api.engine.schema import compiled
from api.engine.status import unsupported_media_type
from api.engine.strategic import strategic_patch
from fleet.values.ports import Body


def patcher(kind: Kind, patch_type: str) -> Callable[[Body, Any], Body]:
    """Return the function that makes a new body of an old one and a patch.

    Raises StatusError 415 for a media type that the kind does not take.
    """
    if patch_type == patches.JSON:
        return patches.json_patch
    if patch_type == patches.MERGE:
        return patches.merge_patch
    if patch_type == patches.STRATEGIC and kind.builtin:
        return lambda body, patch: strategic_patch(compiled(kind), body, patch)
    types = [patches.JSON, patches.MERGE, *([patches.STRATEGIC] if kind.builtin else []), patches.APPLY]
    raise unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(types)}"
    )
