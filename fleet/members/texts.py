"""Texts of a member, where they enter the hub: one line, printable, and bounded. Pure.

A member chooses the length and the letters of its refusals, conditions and events, and the hub writes them into
conditions, tables and logs. So each of them passes here once, where it is read, and no reader behind has to ask.
"""

from __future__ import annotations

from typing import Any

from fleet.values.untyped import pairs, text

LINE_MAX = 500  # characters
NAME_MAX = 317  # characters of a name: a label's key is the longest, a prefix and a name
VALUE_MAX = 253  # characters of a label's value, which may be a name
_FOR_PEOPLE = ("message", "reason")  # ends of the keys, in lower case, whose texts people read


def one_line(value: object, most: int = LINE_MAX) -> str:
    """The text as one printable line of at most `most` characters; "" for what is no text."""
    said = text(value)
    if len(said) <= most and said.isprintable():
        return said
    words = "".join(letter if letter.isprintable() else " " for letter in said[: 4 * most]).split()
    plain = " ".join(words)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def name_of(value: object) -> str:
    """A name, for a reader that cannot do without. Raises ValueError for what is none."""
    said = text(value)
    if not said or len(said) > NAME_MAX or not said.isprintable():
        raise ValueError(f"{one_line(said, 40)!r} is no name")
    return said


def labels_of(value: object) -> dict[str, str]:
    """Labels, without those that no API server stores."""
    return {
        key: said
        for key, said in pairs(value).items()
        if len(key) <= NAME_MAX and len(said) <= VALUE_MAX and key.isprintable() and said.isprintable()
    }


def lines_within(value: Any) -> None:
    """Make a line of each text that is for people to read, however deep it stands, in place."""
    rest = [value]
    while rest:
        item = rest.pop()
        if item.__class__ is list:
            rest += item
        elif item.__class__ is dict:
            for key, inner in item.items():
                if inner.__class__ is not str:
                    rest.append(inner)
                elif key.lower().endswith(_FOR_PEOPLE):
                    item[key] = one_line(inner)
