"""The causes in the texts of records that an older release wrote: no other text of Fleet's is read.

The table of causes has these texts still. A text that is not there, of a release before, becomes a cause of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from fleet.core.model.cause import PARTS, TABLE, Cause, CauseCode

_CHECKER = (CauseCode.DROPPED, CauseCode.REFUSED_ALL)  # their texts end with a sentence of any kind
_KNOWN = tuple(code for code in TABLE if code not in (CauseCode.LEFT_OUT, CauseCode.OLDER))
_LACKS, _NO = "the model has no ", ", no "
_TEXTS = ("detail", "fault", "queue")  # numbers that are none


def causes_in(why: str) -> tuple[Cause, ...]:
    """The causes in the text of a certificate."""
    whole = _matching(why, _CHECKER)
    return (whole,) if whole is not None else tuple(_causes(why))


def _causes(why: str) -> Iterator[Cause]:
    for text in filter(None, why.split("; ")):
        if text.startswith(_LACKS):
            yield from (_lacking(part) for part in text.removeprefix(_LACKS).split(_NO))
        else:
            yield _one(text)


def cause_in(text: str) -> Cause | None:
    """The cause with this text; None for no text."""
    return _one(text) if text else None


def _one(text: str) -> Cause:
    return _matching(text, _KNOWN) or Cause(CauseCode.OLDER, {"text": text})


def _lacking(part: str) -> Cause:
    for bound, template in PARTS.items():
        found = _pattern(template).fullmatch(part)
        if found is not None:
            return Cause(CauseCode.LEFT_OUT, {"bound": bound, **_numbers(found)})
    return Cause(CauseCode.OLDER, {"text": _LACKS + part})


def _matching(text: str, codes: tuple[CauseCode, ...]) -> Cause | None:
    for code in codes:
        found = _pattern(TABLE[code]).fullmatch(text)
        if found is not None:
            return Cause(code, _numbers(found))
    return None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """The texts that a template makes, with a group for each number."""
    plain = re.split(r"\{(\w+)\}", template)
    named = (f"(?P<{part}>.+)" if index % 2 else re.escape(part) for index, part in enumerate(plain))
    return re.compile("".join(named), re.DOTALL)


def _numbers(found: re.Match[str]) -> Mapping[str, str | int | float]:
    return {name: text if name in _TEXTS else _number(text) for name, text in found.groupdict().items()}


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
