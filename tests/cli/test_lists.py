"""What all lists share: the ways to print, orders, pages, watching, colours, and narrow terminals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.cli import clusters, jobs, lists, orphans, output, queues, token
from fleet.cli.colors import Color, painted, wanted
from fleet.cli.failure import Failure
from fleet.cli.nearest import suggestion
from fleet.cli.options import ListOutput
from tests.cli.hub import Up, fleet, refusal

LISTINGS = [clusters.LIST, jobs.LIST, orphans.LIST, queues.LIST, token.LIST]
LIST = lists.Listing(
    columns=("name", "state"),
    wide=("name", "state", "size"),
    sorts={"name": lambda one: one["name"], "size": lambda one: one["size"]},
    word=lambda one: f"thing/{one['name']}",
    down=("size",),
    moving=("size",),
)


def things(*names: str, state: str = "Running") -> list[lists.Record]:
    return [{"name": name, "state": state, "size": len(name)} for name in names]


def how(output: ListOutput = ListOutput.table, sort: str = "", **more: Any) -> lists.ListOptions:
    return lists.options(LIST, output, sort, more.pop("watch", False), more.pop("color", Color.never), **more)


def printed(capsys: pytest.CaptureFixture[str], asked: lists.ListOptions, *pages: list[lists.Record]) -> list[str]:
    lists.show(asked, lambda: iter(pages), nothing="none at all")
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("listing", LISTINGS)
def test_every_list_has_its_columns_among_the_wide_ones_and_orders_that_are_there(listing: lists.Listing) -> None:
    assert set(listing.columns) <= set(listing.wide) and set(listing.down) <= set(listing.sorts)


@pytest.mark.parametrize("words", [("jobs",), ("queues",), ("clusters",), ("orphans", "list"), ("token", "list")])
def test_every_list_takes_the_same_options(up: Up, words: tuple[str, ...]) -> None:
    def run(*more: str) -> Any:
        return fleet(*words, "--data-dir", str(up.folder), "--color", "never", *more)

    found = json.loads(run("-o", "json", "--sort", "-queue" if words == ("queues",) else "").stdout)
    assert len(run("-o", "name").stdout.splitlines()) == len(found)
    assert len(run("-o", "wide").stdout.splitlines()) == len(found) + bool(found)
    assert "is none of" in refusal(run("--sort", "nothing"))
    assert refusal(run("-w", "-o", "yaml")) == "fleet: --watch prints tables and names alone"


def test_pages_are_printed_as_they_come_and_later_ones_are_as_wide(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[str] = []

    def fetch() -> Iterator[list[lists.Record]]:
        yield things("a", "longername")
        shown.extend(capsys.readouterr().out.splitlines())
        yield things("b")

    lists.show(how(), fetch, nothing="")
    assert shown == ["NAME         STATE", "a            Running", "longername   Running"]
    assert capsys.readouterr().out.splitlines() == ["b            Running"]


def test_an_order_and_a_limit_hold_over_all_pages(capsys: pytest.CaptureFixture[str]) -> None:
    pages = (things("a", "ccc"), things("bb"))
    name = ListOutput.name
    assert printed(capsys, how(name, "size"), *pages) == ["thing/ccc", "thing/bb", "thing/a"]
    assert printed(capsys, how(name, "-size"), *pages) == ["thing/a", "thing/bb", "thing/ccc"]
    assert printed(capsys, how(name, "size", limit=1), *pages) == ["thing/ccc"]
    assert printed(capsys, how(name, limit=2), *pages) == ["thing/a", "thing/ccc"]
    assert [one["name"] for one in json.loads("\n".join(printed(capsys, how(ListOutput.json, limit=1), *pages)))] == [
        "a"
    ]


def test_a_limit_asks_for_no_page_more(capsys: pytest.CaptureFixture[str]) -> None:
    def fetch() -> Iterator[list[lists.Record]]:
        yield things("a", "b")
        raise AssertionError("a page that nobody reads")

    lists.show(how(ListOutput.name, limit=2), fetch, nothing="")
    assert capsys.readouterr().out == "thing/a\nthing/b\n"


def test_nothing_is_said_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    lists.show(how(), lambda: iter([[]]), nothing="none at all")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "none at all\n")


def test_what_changes_is_printed_again_and_what_is_gone_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = things("a", "b")
    looks = iter([[a, b], [a | {"size": 9}, b | {"state": "Failed"}], [b | {"state": "Failed"}]])

    def fetch() -> Iterator[list[lists.Record]]:
        found = next(looks, None)
        if found is None:
            raise KeyboardInterrupt
        yield found

    monkeypatch.setattr(lists, "WATCH_S", 0.0)
    with pytest.raises(KeyboardInterrupt):
        lists.show(how(watch=True), fetch, nothing="")
    lines = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert lines == [["NAME", "STATE"], ["a", "Running"], ["b", "Running"], ["b", "Failed"], ["a", "no longer listed"]]


def test_a_wrong_order_names_the_nearest_right_one() -> None:
    with pytest.raises(Failure, match=r"--sort -sise: is none of name, size; did you mean size\?"):
        how(sort="-sise")


def test_words_are_read_as_they_are_meant() -> None:
    assert lists.spelt("--state", ["NOT-ready", "BackOff"], ("ready", "not ready", "BackOff")) == [
        "not ready",
        "BackOff",
    ]
    with pytest.raises(Failure, match="--state redy: is none of ready, not ready; did you mean ready"):
        lists.spelt("--state", ["redy"], ("ready", "not ready"))


def test_a_name_that_is_near_no_other_is_not_guessed_at() -> None:
    assert suggestion("quite-other", ["train", "eval"]) == "" and suggestion("x", []) == ""
    assert suggestion("Trian", ["train", "eval"]) == "; did you mean train?"


def test_the_last_column_is_cut_on_a_terminal_alone() -> None:
    record = {"name": "a", "reason": "a long reason that has many words"}
    assert output.Table(("name", "reason"), width=26).lines([record])[1] == "a      a long reason that…"
    assert output.Table(("name", "reason"), width=10).lines([record])[1] == "a      a long reas…"
    assert output.Table(("name", "reason")).lines([record])[1] == "a      a long reason that has many words"


def test_colours_mark_states_and_move_no_column() -> None:
    lines = output.Table(("state", "name"), color=True).lines([{"state": "Running", "name": "a"}])
    assert lines == ["STATE     NAME", "\x1b[32mRunning\x1b[0m   a"]
    assert painted("x", "ready, cordoned").startswith("\x1b[33m") and painted("x", "not ready").startswith("\x1b[31m")
    assert painted("x", "-") == "x" and painted("x", "Queued").startswith("\x1b[33m")


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert [wanted(color) for color in Color] == [False, True, False]  # captured: no terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert [wanted(color) for color in Color] == [True, True, False]
    monkeypatch.setenv("NO_COLOR", "1")
    assert [wanted(color) for color in Color] == [False, True, False]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wanted(Color.auto)
