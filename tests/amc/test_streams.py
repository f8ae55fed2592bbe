"""The last message of a process, pairs of ports, and the objects that are the hub's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.amc.change import documents, managed
from fleet.amc.forward import Ports, parse_ports
from fleet.amc.get import HUB_LABEL, CommandRefusal
from fleet.amc.streams import status_of


def failure(*causes: dict[str, str], message: str = "it failed") -> bytes:
    return json.dumps({"status": "Failure", "message": message, "details": {"causes": list(causes)}}).encode()


def test_the_status_of_a_process_is_that_of_its_last_message() -> None:
    assert status_of(b'{"metadata":{},"status":"Success"}') == 0
    assert status_of(failure({"reason": "ExitCode", "message": "137"})) == 137


@pytest.mark.parametrize(
    "text", [failure(), failure({"reason": "ExitCode", "message": "x"}), b"it failed", failure({"reason": "Other"})]
)
def test_a_process_that_could_not_run_says_why(text: bytes) -> None:
    with pytest.raises(CommandRefusal, match="it failed"):
        status_of(text)


@pytest.mark.parametrize(
    ("text", "ports"), [("80", Ports(80, 80)), (":80", Ports(0, 80)), ("8080:80", Ports(8080, 80))]
)
def test_ports_are_a_pair_or_one(text: str, ports: Ports) -> None:
    assert parse_ports(text) == ports


@pytest.mark.parametrize("text", ["", ":", "80:", "x:80", "80:0", "0", "65536", "1:2:3", "-1:80"])
def test_what_is_no_pair_of_ports_is_refused(text: str) -> None:
    with pytest.raises(CommandRefusal, match="is no pair of ports"):
        parse_ports(text)


@pytest.mark.parametrize(
    ("metadata", "is_hubs"),
    [
        ({"labels": {HUB_LABEL: "x"}}, True),
        ({"labels": {}}, False),
        ({}, False),
        ({"labels": {HUB_LABEL: "x"}, "ownerReferences": [{"controller": True}]}, False),
        ({"labels": {HUB_LABEL: "x"}, "ownerReferences": [{"kind": "A"}]}, True),
    ],
)
def test_the_hubs_are_the_objects_that_it_put_there_itself(metadata: dict[str, Any], is_hubs: bool) -> None:
    assert managed({"metadata": metadata}) is is_hubs


def test_files_have_documents_and_lists() -> None:
    one = "{apiVersion: v1, kind: A, metadata: {name: x}}"
    listed = f"{{apiVersion: v1, kind: List, items: [{one}, {one}]}}"
    assert len(documents([("f", f"{one}\n---\n---\n{listed}".encode())])) == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no object is given"),
        (b"a: [", "f is not YAML"),
        (b"kind: A", "f: an object needs"),
        (b"x", "an object needs"),
        (b"{apiVersion: v1, kind: A, metadata: x}", "an object needs"),
    ],
)
def test_what_is_no_object_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(CommandRefusal, match=why):
        documents([("f", content)])
