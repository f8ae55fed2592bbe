"""Results as people look at them: a short repr, a table in a notebook, a DataFrame."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from pandas import DataFrame

HTML_ROWS_MOST = 200
_EMPTY: tuple[object, ...] = (None, "", {}, [], ())
S = TypeVar("S", bound="Record")
Readers = Mapping[str, Callable[[Any], Any]]


def moment(text: object) -> datetime | None:
    """A time of the hub, with its zone; None where there is none."""
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Record:
    """A part of an answer of the hub. `raw` is the JSON that it was made from."""

    SHOWN: ClassVar[tuple[str, ...]] = ()  # the columns of people
    READ: ClassVar[Readers] = {}  # how fields are read that are not taken as they are
    KEYS: ClassVar[Mapping[str, str]] = {}  # the names in the JSON of fields that have others here
    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    @classmethod
    def of(cls: type[S], raw: Mapping[str, Any]) -> S:
        """The value of the JSON; a field that the hub does not send keeps its default."""
        keys = {field.name: cls.KEYS.get(field.name, field.name) for field in dataclasses.fields(cls)}
        given = {
            name: cls.READ.get(name, _plain)(raw[key])
            for name, key in keys.items()
            if name != "raw" and raw.get(key) is not None
        }
        return cls(raw=raw, **given)

    def row(self) -> dict[str, Any]:
        """The fields as the columns of a DataFrame: plain values, without the raw JSON."""
        return {
            field.name: _cell(getattr(self, field.name)) for field in dataclasses.fields(self) if field.name != "raw"
        }

    def __repr__(self) -> str:
        values = self._values()
        told = ((name, values[name]) for name in self._columns() if values[name] not in _EMPTY)
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in told)})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{_html(value)}</td></tr>"
            for name, value in self._values().items()
            if value not in _EMPTY
        )
        return f"<table>{rows}</table>"

    def _values(self) -> dict[str, Any]:
        """The fields as people look at them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "raw"}

    def _columns(self) -> tuple[str, ...]:
        return self.SHOWN or tuple(field.name for field in dataclasses.fields(self) if field.name != "raw")


class Rows(list[S]):
    """A list of records, which a notebook shows as a table."""

    def __init__(self, records: Iterable[S] = (), *, partial: bool = False, notice: str | None = None) -> None:
        super().__init__(records)
        self.partial = partial  # whether there may be more that the user may not see
        self.notice = notice  # what the hub says about all of them

    def df(self) -> DataFrame:
        """A DataFrame with a row for each record (needs pandas: `pip install fleet-queues[pandas]`)."""
        return frame([record.row() for record in self])

    def _repr_html_(self) -> str:
        if not self:
            return "<p>nothing</p>"
        columns = self[0]._columns()
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = ((record._values()[name] for name in columns) for record in self[:HTML_ROWS_MOST])
        body = "".join(f"<tr>{''.join(f'<td>{_html(value)}</td>' for value in row)}</tr>" for row in rows)
        more = len(self) - HTML_ROWS_MOST
        left = f"<p>… and {more} more</p>" if more > 0 else ""
        part = "<p>only what you may see</p>" if self.partial else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}{part}"


def frame(rows: list[dict[str, Any]]) -> DataFrame:
    import pandas

    return pandas.DataFrame(rows)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _cell(value: Any) -> Any:
    """Nested values as the text or the JSON that they are."""
    if isinstance(value, Record):
        return str(value)
    if isinstance(value, tuple):
        return [one.raw if isinstance(one, Record) else one for one in value]
    return value


def _short(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return repr(round(value, 3) if isinstance(value, float) else value)


def _html(value: Any) -> str:
    if isinstance(value, datetime | float):
        return _short(value)
    if isinstance(value, tuple):
        return "; ".join(map(_html, value))
    if isinstance(value, Mapping):
        return escape(", ".join(f"{name}={one}" for name, one in value.items()))
    return "" if value is None else escape(str(value))
