"""Reading a configuration file strictly: each field once, of its type, and no field that nobody reads.

Faults are collected with the path of the field, so that an administrator sees all of them at once.
"""

from __future__ import annotations

from typing import Any

import yaml

FILE_BYTES_MAX = 1 << 20


class BadConfiguration(ValueError):
    """A configuration that cannot be used: its faults, one text each, with the field first."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def load(text: bytes) -> Any:
    """The document of a YAML file. Raises BadConfiguration."""
    if len(text) > FILE_BYTES_MAX:
        raise BadConfiguration([f"(file): more than {FILE_BYTES_MAX} bytes"])
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: of a date that no calendar has
        raise BadConfiguration([f"(file): no YAML: {' '.join(str(error).split())[:200]}"]) from None


class Section:
    """One object of a configuration. Each reader takes its field; `end` names the fields that none has taken."""

    def __init__(self, value: Any, path: str, faults: list[str]) -> None:
        self.path, self.faults, self.raw = path, faults, value
        self._left: dict[str, Any] = {}
        if isinstance(value, dict):
            self._left = {str(key): item for key, item in value.items() if item is not None}
        elif value is not None:
            self.fault("", "must be an object")

    def at(self, field: str) -> str:
        return f"{self.path}.{field}".strip(".") if field else self.path

    def fault(self, field: str, text: str) -> None:
        self.faults.append(f"{self.at(field) or '(file)'}: {text}")

    def has(self, field: str) -> bool:
        return field in self._left

    def ignore(self, field: str) -> None:
        """Take a field whose content means nothing here."""
        self._left.pop(field, None)

    def text(self, field: str, *, required: bool = False) -> str:
        value: object = self._left.pop(field, "")
        if not isinstance(value, str):
            self.fault(field, "must be a text")
            return ""
        if required and not value:
            self.fault(field, "Required value")
        return value

    def flag(self, field: str) -> bool:
        value = self._left.pop(field, False)
        if not isinstance(value, bool):
            self.fault(field, "must be true or false")
            return False
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        value = self._left.pop(field, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fault(field, "must be a list of texts")
            return ()
        return tuple(value)

    def section(self, field: str) -> Section:
        return Section(self._left.pop(field, None), self.at(field), self.faults)

    def sections(self, field: str) -> list[Section]:
        value = self._left.pop(field, [])
        if not isinstance(value, list):
            self.fault(field, "must be a list")
            return []
        return [Section(item, f"{self.at(field)}[{number}]", self.faults) for number, item in enumerate(value)]

    def end(self) -> None:
        for field in self._left:
            self.fault(field, "unknown field")
