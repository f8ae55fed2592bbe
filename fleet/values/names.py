"""Names and keys as Kubernetes allows them, with the refusals of a kube-apiserver.

A check returns the faults of a text, one sentence each, and nothing for a text that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

LABEL_MAX = 63  # characters of a DNS label, of a label's value, and of a key behind its prefix
SUBDOMAIN_MAX = 253  # characters of a DNS subdomain, and so of the name of any object
CACHED_CHARACTERS_MAX = 400  # of a text whose verdict is remembered; no valid key is longer

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_DNS1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def label_problems(text: str) -> list[str]:
    """Return the faults that keep `text` from being a DNS label as of RFC 1123."""
    found = [] if len(text) <= LABEL_MAX else [f"must be no more than {LABEL_MAX} characters"]
    return found if _LABEL.match(text) else [*found, _LABEL_TEXT]


def subdomain_problems(text: str, unit: str = "characters") -> list[str]:
    """Return the faults that keep `text` from being a DNS subdomain as of RFC 1123: labels with dots between them."""
    found = [] if len(text) <= SUBDOMAIN_MAX else [f"must be no more than {SUBDOMAIN_MAX} {unit}"]
    return found if _SUBDOMAIN.match(text) else [*found, _SUBDOMAIN_TEXT]


def dns1035_problems(text: str) -> list[str]:
    """Return the faults that keep `text` from being a DNS label as of RFC 1035, which begins with a letter."""
    found = [] if len(text) <= LABEL_MAX else [f"must be no more than {LABEL_MAX} characters"]
    return found if _LABEL.match(text) and starts_with_letter(text) else [*found, _DNS1035_TEXT]


def starts_with_letter(text: str) -> bool:
    """Return whether a label starts as the name of a Service must (RFC 1035)."""
    return text[:1].isascii() and text[:1].isalpha()


def path_segment_problems(text: str) -> list[str]:
    """Return the faults that keep `text` from being one segment of a URL's path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{c}'" for c in "/%" if c in text]


def _remembered(judge: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    """Return `judge` with a memory for texts of ordinary length. A memory for any text could hold gigabytes."""
    known = lru_cache(maxsize=8192)(judge)
    return lambda text: known(text) if len(text) <= CACHED_CHARACTERS_MAX else judge(text)


@_remembered
def qualified_name_problems(text: str) -> tuple[str, ...]:
    """Return the faults that keep `text` from being the key of a label or annotation: DNS prefix and `/` if any, then a
    name."""
    parts = text.split("/")
    problems: list[str] = []
    name = parts[-1]
    if len(parts) > 2:
        must = _QUALIFIED_TEXT.removeprefix("name part ")
        return (f"a valid label key {must} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems.extend(f"prefix part {text}" for text in subdomain_problems(parts[0], "bytes"))
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > LABEL_MAX:
        problems.append(f"name part must be no more than {LABEL_MAX} bytes")
    if not _QUALIFIED.match(name):
        problems.append(_QUALIFIED_TEXT)
    return tuple(problems)


@_remembered
def label_value_problems(text: str) -> tuple[str, ...]:
    """Return the faults that keep `text` from being the value of a label."""
    found = () if len(text) <= LABEL_MAX else (f"must be no more than {LABEL_MAX} bytes",)
    return found if _VALUE.match(text) else (*found, _VALUE_TEXT)
