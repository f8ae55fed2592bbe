"""What all commands that list things share: the ways to print, the order, and to watch.

A command describes its list once (Listing), and gives a function that fetches the records page by page.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from fleet.amc.terminal import own
from fleet.cli.colors import Color
from fleet.cli.failure import Failure
from fleet.cli.nearest import suggestion
from fleet.cli.options import ListOutput, Output

Record = dict[str, Any]
Fetch = Callable[[], Iterable[Sequence[Record]]]
WATCH_S = 2.0
TABLES = (ListOutput.table, ListOutput.wide)


@dataclass(frozen=True)
class Listing:
    """One kind of list.

    `word`: what other commands take for a record. `key`: the fields that tell records apart. `down`: orders that begin
    with the greatest. `moving`: fields that change without being news. `row_of`: a record as a table shows it.
    """

    columns: tuple[str, ...]
    wide: tuple[str, ...]
    sorts: Mapping[str, Callable[[Record], Any]]
    word: Callable[[Record], str]
    key: tuple[str, ...] = ("name",)
    down: tuple[str, ...] = ()
    moving: tuple[str, ...] = ()
    row_of: Callable[[Record], Record] = dict


@dataclass(frozen=True)
class ListOptions:
    """How a user wants a list. `limit`: the most records; 0: all. `spaces`: whether the namespace is a column."""

    listing: Listing
    output: ListOutput
    sort: str
    watch: bool
    color: Color
    limit: int = 0
    spaces: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        columns = self.listing.wide if self.output is ListOutput.wide else self.listing.columns
        return ("namespace", *columns) if self.spaces else columns

    def ordered(self, records: list[Record]) -> list[Record]:
        if order := self.sort.removeprefix("-"):
            records.sort(
                key=self.listing.sorts[order], reverse=(order in self.listing.down) != self.sort.startswith("-")
            )
        return records[: self.limit or None]

    def id_of(self, record: Record) -> tuple[Any, ...]:
        return tuple(record[field] for field in self.listing.key)


def options(
    listing: Listing,
    output: ListOutput,
    sort: str,
    watch: bool,
    color: Color,
    *,
    limit: int = 0,
    spaces: bool = False,
) -> ListOptions:
    """The options, once they make sense. Raises Failure."""
    order = sort.removeprefix("-")
    if order and order not in listing.sorts:
        raise Failure(f"--sort {sort}: is none of {', '.join(listing.sorts)}{suggestion(order, listing.sorts)}")
    if watch and output in (ListOutput.json, ListOutput.yaml):
        raise Failure("--watch prints tables and names alone")
    return ListOptions(listing, output, sort, watch, color, limit, spaces)


def show(
    how: ListOptions, fetch: Fetch, *, nothing: str, looks: Callable[[], Iterable[list[Record]]] | None = None
) -> None:
    """Print what `fetch` finds; `nothing`, on stderr, where that is nothing. A table without an order is printed page
    by page, as the pages come. `looks`: all records, and again when one has changed; else `fetch` is asked again."""
    from fleet.cli import output
    from fleet.cli.colors import wanted

    if how.watch:
        _watch(how, looks() if looks is not None else _polled(fetch))
        return
    if how.output in (ListOutput.json, ListOutput.yaml):
        output.show(how.ordered(_all(fetch)), how.columns, Output(how.output))
        return
    pages = [how.ordered(_all(fetch))] if how.sort else fetch()
    table = _table(how, color=wanted(how.color))
    printed = 0
    for page in pages:
        room = how.limit - printed if how.limit else len(page)
        _write(how, table, page[:room])
        printed += min(room, len(page))
        if how.limit and printed >= how.limit:
            break
    if not printed:
        print(nothing, file=sys.stderr)


def _polled(fetch: Fetch) -> Iterator[list[Record]]:
    while True:
        yield _all(fetch)
        time.sleep(WATCH_S)


def _watch(how: ListOptions, looks: Iterable[list[Record]]) -> None:
    """Print the records, and again each that changes, until Ctrl-C."""
    from fleet.cli.colors import wanted

    table = _table(how, color=wanted(how.color))
    before: dict[tuple[Any, ...], Record] = {}
    for found in looks:
        records = how.ordered(found)
        changed = [
            record for record in records if _lasting(how, before.get(how.id_of(record))) != _lasting(how, record)
        ]
        last = how.columns[-1]
        gone = [
            before[id_] | {"state": "-", last: "no longer listed"} for id_ in before.keys() - map(how.id_of, records)
        ]
        _write(how, table, [*changed, *gone])
        sys.stdout.flush()
        before = {how.id_of(record): record for record in records}


def _all(fetch: Fetch) -> list[Record]:
    return [record for page in fetch() for record in page]


def _table(how: ListOptions, *, color: bool) -> Any:
    from fleet.cli.output import Table, terminal_width

    return Table(how.columns, color=color, width=terminal_width() if how.output is ListOutput.table else None)


def _write(how: ListOptions, table: Any, records: Sequence[Record]) -> None:
    if how.output is ListOutput.name:
        sys.stdout.writelines(f"{how.listing.word(record)}\n" for record in records)
    elif records:  # with colours; the cells are clean
        own(sys.stdout).writelines(f"{line}\n" for line in table.lines(map(how.listing.row_of, records)))
    sys.stdout.flush()


def _lasting(how: ListOptions, record: Record | None) -> Record | None:
    """The record without the fields that change all the time."""
    return None if record is None else {k: v for k, v in record.items() if k not in how.listing.moving}


def spelt(option: str, texts: Iterable[str] | None, words: Sequence[str]) -> list[str]:
    """The words as Fleet spells them. Raises Failure, which names the nearest."""
    by_lower = {word.lower(): word for word in words}
    result = []
    for text in texts or ():
        word = by_lower.get(text.lower().replace("-", " ")) or by_lower.get(text.lower())
        if word is None:
            raise Failure(f"{option} {text}: is none of {', '.join(words)}{suggestion(text, words)}")
        result.append(word)
    return result


def sort_option(listing: Listing) -> Any:
    """`--sort`, with the orders of this list."""
    return typer.Option(
        "--sort",
        metavar="ORDER",
        help=f"{', '.join(listing.sorts)}; -{next(iter(listing.sorts))}: the other way.",
        autocompletion=lambda: [*listing.sorts, *(f"-{order}" for order in listing.sorts)],
    )
