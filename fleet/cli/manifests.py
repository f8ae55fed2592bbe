"""Files of manifests, as people hand them to kubectl: several documents, Lists, and the output of `get -o yaml`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fleet.cli.failure import Failure

Body = dict[str, Any]

ENDS = (".yaml", ".yml", ".json")  # of the files of a directory that are read


def documents_of(paths: Iterable[Path]) -> tuple[list[Body], list[str]]:
    """The objects of files and directories, and what is wrong with the files that cannot be read."""
    bodies: list[Body] = []
    faults: list[str] = []
    for path in paths:
        inside = sorted(one for one in path.iterdir() if one.suffix in ENDS) if path.is_dir() else [path]
        if not inside:
            faults.append(f"{path} has no file that ends in {', '.join(ENDS)}")
        for one in inside:
            try:
                bodies += documents(one)
            except Failure as failure:
                faults.append(str(failure))
    return bodies, faults


def documents(path: Path) -> list[Body]:
    """The objects of one YAML or JSON file, without what servers fill in. Raises Failure."""
    import yaml

    from fleet.submission.dumps import as_written
    from fleet.values.yamlread import load_yaml, several, yaml_fault

    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror or error}") from error
    bodies: list[Body] = []
    source = "stdin" if str(path) == "-" else str(path)
    for number, text in enumerate(_texts(several(data)), start=1):
        where, twice = f"{source}: document {number}", list[str]()
        try:
            document = load_yaml(text, twice)
        except UnicodeDecodeError as error:
            raise Failure(f"cannot read {source}: {error}") from error
        except (yaml.YAMLError, ValueError) as error:
            raise Failure(f"{where} is not YAML: {yaml_fault(error)}") from error
        if twice:
            raise Failure(f"{where}: {twice[0]}")
        bodies += [as_written(body) for body in _objects(document, where)]
    if not bodies:
        raise Failure(f"{source} is empty: no object in it")
    return bodies


def _texts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The documents of a stream: those that lines of dashes part, and JSON objects after each other."""
    from fleet.submission.documents import json_objects

    for part in parts:
        try:
            yield from (text.encode() for text in json_objects(part.decode()))
        except UnicodeDecodeError:  # told of where it is read
            yield part


def _objects(document: Any, where: str) -> Iterator[Body]:
    """The objects of a List, else the one."""
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        kind = str(document.get("kind") or "")
        like = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
        for number, item in enumerate(document["items"], start=1):
            yield from _objects({**like, **item} if isinstance(item, dict) else item, f"{where}, item {number}")
        return
    if not isinstance(document, dict):
        raise Failure(f"{where} is no object (apiVersion, kind and metadata.name are required)")
    metadata = document.get("metadata")
    named = isinstance(metadata, dict) and (metadata.get("name") or metadata.get("generateName"))
    there = {"apiVersion": document.get("apiVersion"), "kind": document.get("kind"), "metadata.name": named}
    if lacking := [field for field, value in there.items() if not value]:
        raise Failure(f"{where} has no {' and no '.join(lacking)}")
    yield document
