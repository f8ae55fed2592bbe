"""Writes the reference pages that the code knows best: cli.md, fields.md, marks.md, python.md, reasons.md. Writes as
data the glossary, for `fleet help`, and the first lines of `fleet --help`. Runs the examples of snapshot.md and
how-to/what-if.md.

    .venv/bin/python docs/generate.py

The pages are written from the commands and the tables of reasons and causes themselves, so they cannot say anything
else. A test compares.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

from fleet.admission.unread import OF, PASSED_ON, Field, tables
from fleet.cli.examples import EXAMPLES
from fleet.cli.main import app
from fleet.core.model.cause import PARTS
from fleet.core.model.cause import TABLE as CAUSES
from fleet.core.model.reason import TABLE
from fleet.wellknown.marks import TABLE as MARKS

sys.path.insert(0, str(Path(__file__).resolve().parent))
from python_reference import page as python_page
from run_examples import files, renewed  # noqa: F401 (files: for the tests)

REFERENCE = Path(__file__).resolve().parent / "reference"
GROUPS = {
    "Run a hub": ("up", "demo", "status", "api", "controllers", "sim", "backup", "restore"),
    "Members": ("join", "agent", "unjoin", "clusters", "cordon", "uncordon", "drain", "move", "top"),
    "Jobs and queues": (
        "run",
        "submit",
        "check",
        "sweep",
        "clone",
        "delete",
        "jobs",
        "explain",
        "logs",
        "exec",
        "attach",
        "port-forward",
        "wait",
        "hold",
        "release",
        "suspend",
        "resume",
        "cancel",
        "priority",
        "queues",
        "decide",
        "what-if",
        "replay",
    ),
    "The past": ("history", "show", "report"),
    "The rest": ("help", "doctor", "notifications", "orphans", "token", "completion", "version"),
}
CLI_HEAD = """# The command line

Made by `docs/generate.py` from the commands themselves. `fleet COMMAND --help` prints the same, and `fleet --version` the version of the program.

The [exit status](../how-to/use-the-command-line.md#exit-status) is 0, 1 for an expected failure, 2 for wrong usage, 78 where a hub's data is not for this release or key, 124 where a time was over, and 130 after Ctrl-C.

Commands that ask a hub find it by the first of these that is given: `--kubeconfig`; the kubeconfig of `--data-dir`; `FLEET_KUBECONFIG`; the files of `KUBECONFIG`; the kubeconfig of `FLEET_DATA_DIR`; `~/.fleet/kubeconfig`; `~/.kube/config`. `--context` chooses a context of it (and passes `~/.fleet` over, which has one), whose namespace is the default of `--namespace`. A server that is no Fleet hub is named and left alone. A token in `FLEET_TOKEN`, or in `--token` before the command, stands for the credentials of the kubeconfig's user.
"""  # noqa: E501
REASONS_HEAD = """# Reasons

Made by `docs/generate.py` from `fleet/core/model/reason.py`: every reason why a job does not start. [Find out why a job waits](../how-to/find-out-why-a-job-waits.md) has the advice for each.

Codes are stable. Severity: Info goes away by itself; at Warning a person may want to act; at Error the job never starts unless a person acts. Words in braces are the numbers that `status.reason.numbers` of the QueueUnit holds.
Amounts of resources are kept in base units there (millicores, bytes) and printed as people write them. For a special case of a code the text may be another sentence: programs compare codes.

| code | severity | text |
|---|---|---|
"""  # noqa: E501
CAUSES_HEAD = """
## Causes of a certificate

The [certificate](snapshot.md#plans) of a plan names whose plan it is, and the causes of that: each with a `code`, its `numbers` (the words in braces) and its `text`. Programs compare codes; `why` has the texts of all causes, for people. From `fleet/core/model/cause.py`.

| code | text |
|---|---|
"""  # noqa: E501
PARTS_HEAD = """
The part that `LeftOut` names, by its number `bound`:

| bound | part |
|---|---|
"""
MARKS_HEAD = """# Labels, annotations and finalizers

Made by `docs/generate.py` from `fleet/wellknown/marks.py`: every key that Fleet works with, and its writer.

A key of the **hub** is refused from every other writer, on every kind and on pod templates, at create and at change. An object that is sent back as it is passes, and an update that leaves such a key out keeps it. An unknown key below `fleet.io/` is refused with the nearest name, and so are keys below `work.karmada.io/`, `propagationpolicy.karmada.io/` and `clusterpropagationpolicy.karmada.io/`.
A key of the **user** is checked as any field. A key of the **administrator** stands on an object that only administrators may write. Each user who may update the object may take off a finalizer of the hub.

| key | place | written by | on | meaning |
|---|---|---|---|---|
"""  # noqa: E501

FIELDS_HEAD = """# Fields: read, passed on, warned or refused

Made by `docs/generate.py` from `fleet/admission/fields.yaml`: what becomes of each field below `spec` of the kinds that Fleet brings, and of the jobs that it serves from the start. A row is for its field and all below it that has no row of its own. `a[]` are the items of a list, `a{}` the values of a map. The status of all these kinds is the hub's.

| word | meaning |
|---|---|
| read | the hub acts on it in the module that is named; of a job it is passed on, too |
| passed on | the hub does not look at it; the copy in the member has it as it is |
| warned | it has no effect; its writer gets a warning with these words, when the field comes or changes |
| refused | 403 or 422, with these words or by the module that is named |

Of a job kind that a user declares everything is passed on; its [declaration](kinds.md#a-declaration-workloadinterpreter) says what is read, and its pod templates are as below.
"""  # noqa: E501


def fields_page() -> str:
    """Kinds of one table share a section."""
    sections: dict[tuple[Field, ...], list[str]] = {}
    for name, fields in tables().items():
        sections.setdefault(fields, []).append(name)
    kinds = [name.split()[1] for name in tables() if " " in name]
    parts = [FIELDS_HEAD]
    for fields, names in sections.items():
        title = ", ".join(_title(name, kinds) for name in names)
        parts.append(f"\n## {title}\n\n| field | | |\n|---|---|---|\n")
        for field in fields:
            path, word = f"`{field.path}`" if field.path else "the rest", "see" if field.word == OF else field.word
            parts.append(f"| {path} | {word} | {_about(field)} |\n")
    return "".join(parts)


def _title(name: str, kinds: list[str]) -> str:
    """Of a kind or a part; the group tells kinds of one name apart."""
    group, _, kind = name.partition(" ")
    if "." not in group and group not in ("apps", "batch"):
        return name[0].upper() + name[1:]
    return f"{kind} ({group})" if kinds.count(kind) > 1 else kind


def _about(field: Field) -> str:
    if field.word == OF:
        return f"[{field.about}](#{field.about.replace(' ', '-').lower()})"
    but = f" (but for `{', '.join(map(json.dumps, field.unless))}`)" if field.unless else ""
    return "" if field.word == PASSED_ON else f"{_cell(field.about)}{but}" if field.reports else f"`{field.about}`"


def marks_page() -> str:
    rows = [
        f"| `{mark.key}` | {mark.place} | {mark.writer.value} | {mark.on} | {_cell(mark.meaning)} |\n"
        for mark in MARKS.values()
    ]
    return MARKS_HEAD + "".join(rows)


def cli_page() -> str:
    root: Any = typer.main.get_command(app)
    parts = [CLI_HEAD]
    for title, names in GROUPS.items():
        parts.append(f"\n## {title}\n")
        for name in names:
            command = root.commands[name]
            for words, found in _leaves(f"fleet {name}", command):
                parts.append("\n".join(_command(words, found)))
    missing = set(root.commands) - {name for names in GROUPS.values() for name in names}
    if missing:
        raise SystemExit(f"docs/generate.py: GROUPS lacks {', '.join(sorted(missing))}")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)) + "\n"


def _leaves(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if not children:
        yield words, command
        return
    if command.invoke_without_command:
        yield words, command
    for name, child in children.items():
        yield from _leaves(f"{words} {name}", child)


def _command(words: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    usage = " ".join([words, *(p.name.upper() + ("…" if p.nargs == -1 else "") for p in arguments)])
    yield f"\n### {usage}\n"
    yield " ".join((command.help or "").split()) + "\n"
    if arguments or options:
        yield "| | | default |\n|---|---|---|"
    for parameter in arguments:
        yield f"| `{parameter.name.upper()}` | {_cell(parameter.help)} | |"
    for parameter in options:
        yield f"| {', '.join(f'`{o}`' for o in parameter.opts)} | {_cell(parameter.help)} | {_default(parameter)} |"
    yield "\n".join(["\n```sh", *EXAMPLES[words.removeprefix("fleet ")], "```"])


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    shown = getattr(parameter, "show_default", None)  # a text where the value is not as people type it
    value = shown if isinstance(shown, str) else getattr(parameter.default, "value", parameter.default)
    return "" if value is None or value is False else f"`{value}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def reasons_page() -> str:
    rows = [f"| `{code.value}` | {entry.severity.value} | {_cell(entry.text)} |\n" for code, entry in TABLE.items()]
    causes = [f"| `{code.value}` | {_cell(text)} |\n" for code, text in CAUSES.items()]
    parts = [f"| `{bound}` | {_cell(text)} |\n" for bound, text in PARTS.items()]
    return REASONS_HEAD + "".join(rows) + CAUSES_HEAD + "".join(causes) + PARTS_HEAD + "".join(parts)


def glossary() -> str:
    """The rows of glossary.md as data, which `fleet help` reads."""
    found, section = [], ""
    for line in (REFERENCE.parent / "glossary.md").read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[0] != "term":
            found.append(
                dict(zip(("section", "term", "meaning", "elsewhere", "where"), (section, *cells), strict=True))
            )
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def commands() -> str:
    """The first line of each command's help as data, which `fleet --help` reads."""
    root: Any = typer.main.get_command(app)
    lines = {name: (command.help or "").partition("\n")[0] for name, command in root.commands.items()}
    return json.dumps(lines, indent=1) + "\n"


def _with_examples(page: str) -> Callable[[], str]:
    return lambda: renewed((REFERENCE / page).read_text())


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "fields.md": fields_page,
    "marks.md": marks_page,
    "python.md": python_page,
    "reasons.md": reasons_page,
    "../../fleet/cli/commands.json": commands,
    "../../fleet/cli/glossary.json": glossary,
    "snapshot.md": _with_examples("snapshot.md"),
    "../how-to/what-if.md": _with_examples("../how-to/what-if.md"),
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (REFERENCE / page).write_text(make())
        print(f"wrote {page}", file=sys.stderr)
