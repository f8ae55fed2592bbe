"""JSON objects after each other in one text, as kubectl takes them."""

from __future__ import annotations

import json
import re

_SPACE = re.compile(r"\s*")


def json_objects(text: str) -> list[str]:
    """The JSON objects of a text that has several and nothing else; the text itself in all other cases."""
    decoder, objects = json.JSONDecoder(), list[str]()
    at = _after_space(text, 0)
    try:
        while text.startswith("{", at):
            _, end = decoder.raw_decode(text, at)
            objects.append(text[at:end])
            at = _after_space(text, end)
    except (ValueError, RecursionError):
        return [text]
    return objects if len(objects) > 1 and at == len(text) else [text]


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at
