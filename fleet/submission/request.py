"""What a person says of a job, as values, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Body = dict[str, Any]

NAME_MOST = 63  # characters of the name of a pod, which other objects and labels repeat
CODE_MOST_BYTES = 2**20  # what a ConfigMap may hold
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?([EPTGMk]i?|Ki|m)?")


class RequestFault(ValueError):
    """A part of a request that cannot be. `part`: the field of Request that the user has to change."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(f"{part}: {why}")
        self.part = part
        self.why = why


class InteractiveKind(StrEnum):
    SHELL = "shell"
    NOTEBOOK = "notebook"


@dataclass(frozen=True)
class Mount:
    """A volume claim of the namespace, and the place of its files in each pod."""

    claim: str
    path: str
    read_only: bool = False


@dataclass(frozen=True)
class CodeArchive:
    """Files that go along: a tar archive, compressed by gzip, and the directory of the pods that it is unpacked to."""

    archive: bytes = field(repr=False)
    path: str = "/workspace"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A job as a person describes it. Amounts are those of each worker; None is what the template says, else nothing.

    `template`: the manifest that the rest is put into; without one the job is made from nothing. `kind`: of the job,
    else the template's, else PyTorchJob. `workers`: pods that share the work, 1 without a template. `time_s`: the
    longest time that the job may run. `topology`, `preferred_topology`: levels, such as a rack, of which the pods stand
    in one domain, or in as few as can be. `idle_s`: how long an interactive job goes on unused."""

    name: str
    namespace: str = ""
    image: str = ""
    command: Sequence[str] = ()
    kind: str = ""
    workers: int | None = None
    gpus: int | None = None
    cpu: str = ""
    memory: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()  # whose entries become variables
    mounts: Sequence[Mount] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    time_s: int | None = None
    queue: str = ""
    priority: str = ""  # name of a PriorityClass
    topology: str = ""
    preferred_topology: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    code: CodeArchive | None = None
    interactive: InteractiveKind | None = None
    idle_s: int = 3600
    template: Body | None = None


def check(request: Request) -> None:
    """Raises RequestFault for a request that no job can be made of, whatever its kind."""
    if not _NAME.fullmatch(request.name):
        raise RequestFault(
            "name", f'"{request.name}" must be lower-case letters, digits and "-", and begin with a letter'
        )
    if len(request.name) > NAME_MOST:
        raise RequestFault("name", f"is {len(request.name)} characters long, of at most {NAME_MOST}")
    for part, number, least in (
        ("workers", request.workers, 1),
        ("gpus", request.gpus, 0),
        ("time", request.time_s, 1),
        ("idle", request.idle_s, 1),
    ):
        if number is not None and number < least:
            raise RequestFault(part, f"{number} is less than {least}")
    for part, amount in (("cpu", request.cpu), ("memory", request.memory)):
        if amount and not _AMOUNT.fullmatch(amount):
            raise RequestFault(part, f"{amount} is no amount such as {'8 or 500m' if part == 'cpu' else '64Gi'}")
    for name, amount in request.resources.items():
        if not _AMOUNT.fullmatch(amount):
            raise RequestFault("resource", f"{name}={amount}: {amount or 'nothing'} is no amount")
    for name in request.env:
        if not _VARIABLE.fullmatch(name):
            raise RequestFault("env", f'"{name}" is no name of a variable')
    if request.interactive and (request.workers or 1) > 1:
        raise RequestFault("workers", f"a {request.interactive} has one pod")
    _check_paths(request)


def _check_paths(request: Request) -> None:
    paths = [("mount", mount.path) for mount in request.mounts]
    if request.code is not None:
        paths.insert(0, ("code", request.code.path))
        if len(request.code.archive) > CODE_MOST_BYTES:
            raise RequestFault("code", f"{len(request.code.archive)} bytes, of at most {CODE_MOST_BYTES}")
    folders = set()
    for part, path in paths:
        if not path.startswith("/") or path == "/" or ":" in path:
            raise RequestFault(part, f'"{path}" is no absolute path below /')
        if path.rstrip("/") in folders:
            raise RequestFault(part, f"something else is at {path} already")
        folders.add(path.rstrip("/"))
