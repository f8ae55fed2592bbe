"""The options of `fleet run`, and the request that they make.

Amounts are those of each worker, as in `sky launch --num-nodes` and `arena submit`, and not of the job, as in `sbatch`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fleet.cli import completers
from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from fleet.submission import Request

Texts = list[str] | None


class DryRun(StrEnum):
    client = "client"
    server = "server"


class PrintForm(StrEnum):
    yaml = "yaml"
    json = "json"
    name = "name"


# Options that may stand without a value: what they mean then, and the values that they may have ((): any).
BARE: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "--dry-run": ("client", tuple(DryRun)),
    "--template": ("", ()),
    "--code": (".", ()),
}


class RunCommand(TyperCommand):
    """A command some options of which may stand alone: --dry-run, and --dry-run=server."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, filled(args))


def filled(words: Sequence[str]) -> list[str]:
    """The words, where an option that stands without its value has its value; what follows -- is the command."""
    result: list[str] = []
    for number, word in enumerate(words):
        if word == "--":
            return [*result, *words[number:]]
        alone = BARE.get(word)
        after = words[number + 1] if number + 1 < len(words) else "-"
        if alone is not None and (after.startswith("-") or (alone[1] and after not in alone[1])):
            word = f"{word}={alone[0]}"
        result.append(word)
    return result


CommandArgument = Annotated[Texts, typer.Argument(metavar="COMMAND", help="What each worker runs; write it after --.")]
ImageOption = Annotated[str, typer.Option(metavar="IMAGE", help="Image of the pods.")]
NameOption = Annotated[str, typer.Option(metavar="NAME", help="Name of the job (default: one after its command).")]
KindOption = Annotated[
    str,
    typer.Option(
        metavar="KIND",
        help="PyTorchJob (the default), TFJob, MPIJob, JAXJob, PaddleJob, XGBoostJob, or Job of Kubernetes.",
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option(metavar="N", help="Pods that share the work; they start together, or not at all (1).")
]
GpusOption = Annotated[
    int | None, typer.Option(metavar="N", help="GPUs of each worker: 4 workers with 8 have 32 together.")
]
CpuOption = Annotated[str, typer.Option(metavar="AMOUNT", help="CPUs that each worker asks for: 8, 500m.")]
MemoryOption = Annotated[str, typer.Option(metavar="AMOUNT", help="Memory of each worker, and its limit: 64Gi.")]
ResourceOption = Annotated[
    Texts, typer.Option(metavar="NAME=AMOUNT", help="Another resource of each worker: amd.com/gpu=8. Repeatable.")
]
EnvOption = Annotated[
    Texts, typer.Option("--env", "-e", metavar="NAME=VALUE", help="A variable; NAME alone: as it is here. Repeatable.")
]
SecretOption = Annotated[
    Texts, typer.Option(metavar="SECRET", help="A Secret whose entries become variables. Repeatable.")
]
MountOption = Annotated[
    Texts, typer.Option(metavar="CLAIM:PATH[:ro]", help="A PersistentVolumeClaim, and its place in pods. Repeatable.")
]
NodeSelectorOption = Annotated[Texts, typer.Option(metavar="LABEL=VALUE", help="Only nodes with it. Repeatable.")]
TimeOption = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="The longest time that the job may run: 90m, 12h, 2d. Its member ends the job then."
    ),
]
QueueOption = Annotated[
    str,
    typer.Option(metavar="QUEUE", help="The queue (default: that of the namespace).", autocompletion=completers.queues),
]
PriorityOption = Annotated[str, typer.Option(metavar="CLASS", help="A PriorityClass.")]
TopologyOption = Annotated[
    str,
    typer.Option(
        metavar="LEVEL", help="All pods in one domain of this level, such as a rack. LEVEL@COMPONENT: pods of one kind."
    ),
]
PreferredTopologyOption = Annotated[
    str, typer.Option(metavar="LEVEL", help="The same as far as it goes: the job does not wait for such a place.")
]
LabelOption = Annotated[
    Texts, typer.Option(metavar="NAME=VALUE", help="A label of the job and of its pods. Repeatable.")
]
AnnotationOption = Annotated[
    Texts, typer.Option(metavar="NAME=VALUE", help="An annotation of the job and of its pods. Repeatable.")
]
TemplateOption = Annotated[
    str | None,
    typer.Option(
        metavar="[TEMPLATE]", help="Start from a template of the namespace; without a name: list the templates."
    ),
]
SetOption = Annotated[
    Texts, typer.Option("--set", metavar="PATH=VALUE", help="Change a field of the template. Repeatable.")
]
CodeOption = Annotated[
    Path | None,
    typer.Option(metavar="[DIR]", help="Send the files of a directory along, up to 1 MiB packed (without DIR: this)."),
]
NotebookOption = Annotated[bool, typer.Option("--notebook", help="A Jupyter server, in an image that has one.")]
ShellOption = Annotated[bool, typer.Option("--shell", help="A shell to attach to, in an image that has Bash.")]
IdleOption = Annotated[
    str, typer.Option(metavar="TIME", help="How long --notebook and --shell go on while nobody uses them.")
]
DryRunOption = Annotated[
    DryRun | None,
    typer.Option(metavar="[client|server]", help="Print the job, and make none; server: as the hub would store it."),
]
PrintedOption = Annotated[
    PrintForm | None, typer.Option("--output", "-o", help="Print the job so; with --dry-run it is yaml unless said.")
]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Wait until the job is over; the exit status is 1 if it fails.")
]
FollowOption = Annotated[bool, typer.Option("--logs", "-f", help="The same, and print its log meanwhile.")]


def request_of(**options: Any) -> Request:
    """The request that the options make, by their names. Raises Failure, which names the option."""
    from fleet.submission import InteractiveKind, Mount, Request
    from fleet.submission.layouts import LAYOUTS

    if options["notebook"] and options["shell"]:
        raise Failure("--notebook and --shell: a job is one of them")
    interactive = (
        InteractiveKind.NOTEBOOK if options["notebook"] else InteractiveKind.SHELL if options["shell"] else None
    )
    command = options["command"] or ()
    return Request(
        name=options["name"] or generated(command, interactive or "job"),
        namespace=options["namespace"] or "",
        image=options["image"],
        command=command,
        kind={kind.lower(): kind for kind in LAYOUTS}.get(options["kind"].lower(), options["kind"]),
        workers=options["workers"],
        gpus=options["gpus"],
        cpu=options["cpu"],
        memory=options["memory"],
        resources=_pairs(options["resource"], "--resource"),
        env=_pairs(options["env"], "--env", _here),
        secrets=options["secret"] or (),
        mounts=[Mount(*_mount(text)) for text in options["mount"] or ()],
        node_selector=_pairs(options["node_selector"], "--node-selector"),
        time_s=_seconds(options["time"], "--time") if options["time"] else None,
        queue=options["queue"].rpartition("/")[2],
        priority=options["priority"],
        topology=options["topology"],
        preferred_topology=options["preferred_topology"],
        labels=_pairs(options["label"], "--label"),
        annotations=_pairs(options["annotation"], "--annotation"),
        interactive=interactive,
        idle_s=_seconds(options["idle"], "--idle"),
    )


def generated(command: Sequence[str], otherwise: str) -> str:
    """A name that is readable, and free."""
    from fleet.submission.names import stem

    return f"{stem(command, otherwise)}-{random_end()}"


def random_end() -> str:
    """The end of a name that is free."""
    from fleet.submission.names import END_LENGTH, LETTERS

    return "".join(secrets.choice(LETTERS) for _ in range(END_LENGTH))


def _here(name: str) -> str | None:
    import os

    return os.environ.get(name)


def _pairs(texts: Texts, option: str, otherwise: Callable[[str], str | None] = lambda name: None) -> dict[str, str]:
    """NAME=VALUE by name. `otherwise`: the value of a NAME that stands alone. Raises Failure."""
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        said = value if equals else otherwise(name)
        if not name or said is None:
            raise Failure(f"{option} {text}: is not of the form NAME=VALUE")
        values[name] = said
    return values


def _mount(text: str) -> tuple[str, str, bool]:
    claim, _, rest = text.partition(":")
    path, _, mode = rest.partition(":")
    if not claim or not path or mode not in ("", "ro", "rw"):
        raise Failure(f"--mount {text}: is not of the form CLAIM:/PATH, or CLAIM:/PATH:ro")
    return claim, path, mode == "ro"


def _seconds(text: str, option: str) -> int:
    from fleet.cli.when import duration

    return max(1, round(duration(text, option)))
