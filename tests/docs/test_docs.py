"""All names in the documentation exist: links, anchors, files, commands, options, manifests, reasons, Events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from fleet import wellknown
from fleet.amc.main import parser
from fleet.cli.main import app
from fleet.core.model.reason import Code
from fleet.core.notation.schema import schema
from fleet.rest.states import State
from tests.checkout import DOCS, ROOT, faults_of_pages, pages, relative, script

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# `fleet` at the start of a command: after a prompt, in a block, or in a code span.
COMMAND = re.compile(r"(?:^\$ |^|`)fleet ([a-z-]+)((?: [^`\n]*)?)", re.MULTILINE)
AMC = re.compile(r"kubectl amc ([a-z]+)([^`\n]*)")
NAMED_FILE = re.compile(r"\b(?:docs|examples|fleet|api|tests|deploy|migrations)/[\w./-]*\.(?:py|md|yaml|yml)\b")


def anchors(page: Path) -> set[str]:
    """The anchors that a renderer makes of the headings."""
    found = set()
    for title in re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def generate() -> ModuleType:
    return script("docs/generate.py")


def commands() -> dict[str, Any]:
    root: Any = typer.main.get_command(app)
    return dict(root.commands)


PICTURES = ("only-light", "only-dark")  # which of the site's two colour schemes shows a picture


def test_every_relative_link_leads_somewhere() -> None:
    assert faults_of_pages(_broken_links) == {}


def _broken_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        known = PICTURES if there.suffix == ".png" else anchors(there) if anchor and there.exists() else ()
        if not there.exists() or (anchor and anchor not in known):
            yield target


def test_every_fleet_command_and_option_that_is_mentioned_exists() -> None:
    known = commands()
    assert faults_of_pages(lambda page: _unknown_words(page.read_text(), known)) == {}


def _unknown_words(text: str, known: dict[str, Any]) -> Iterator[str]:
    for name, rest in COMMAND.findall(text):
        command = known.get(name)
        if name in ("--version", "--token"):  # of the program itself
            continue
        if command is None:
            yield f"fleet {name}"
            continue
        children = getattr(command, "commands", {})
        if children and (first := rest.split()[:1]) and first[0] in children:
            command = children[first[0]]
        allowed = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        } | {"--help", "-h"}
        given = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", re.split(r"[|;&#>(]| -- ", rest)[0])
        yield from (f"fleet {name} {option}" for option in given if option not in allowed)


def test_every_file_of_the_source_that_is_mentioned_exists() -> None:
    def missing(page: Path) -> Iterator[str]:
        for name in NAMED_FILE.findall(page.read_text()):
            if "NAME" not in name and not (ROOT / name).exists() and not (page.parent / name).exists():
                yield name

    assert faults_of_pages(missing) == {}


@pytest.mark.parametrize(
    "page",
    ["cli.md", "fields.md", "marks.md", "python.md", "reasons.md", "snapshot.md", "../how-to/what-if.md"],
)
def test_the_pages_that_are_made_from_the_code_say_what_it_says(page: str) -> None:
    wanted = generate().PAGES[page]()
    assert (DOCS / "reference" / page).read_text() == wanted, "run .venv/bin/python docs/generate.py"


@pytest.mark.parametrize("page", ["reference/snapshot.md", "how-to/what-if.md"])
def test_every_snapshot_that_is_shown_is_valid_by_the_schema(page: str) -> None:
    validator = jsonschema.Draft202012Validator(schema("Snapshot"))
    shown = generate().files((DOCS / page).read_text())
    cases = {name: json.loads(text) for name, text in shown.items() if name.endswith(".json")}
    assert cases and [name for name, case in cases.items() if not validator.is_valid(case)] == []


def test_every_reason_has_advice() -> None:
    text = (DOCS / "how-to" / "find-out-why-a-job-waits.md").read_text()
    assert [code.value for code in Code if f"`{code.value}`" not in text] == []


def test_every_condition_and_event_that_the_controllers_name_is_documented() -> None:
    text = (DOCS / "reference" / "conditions-and-events.md").read_text()
    conditions = [
        wellknown.QUEUING,
        wellknown.SCHEDULED,
        wellknown.FULLY_APPLIED,
        wellknown.GANG_WHOLE,
        wellknown.PENDING,
    ]
    names = {constant: getattr(wellknown, constant) for constant in _imported_by_controllers()}
    assert [name for name in [*conditions, *names.values()] if f"`{name}`" not in text] == []


def _imported_by_controllers() -> Iterator[str]:
    """The constants of fleet/wellknown that are reasons of Events and that a controller uses."""
    sources = "\n".join(path.read_text() for path in (ROOT / "fleet" / "controllers").rglob("*.py"))
    for constant in vars(wellknown):
        if constant.endswith(("_SUCCEED", "_FAILED")) and re.search(rf"\b{constant}\b", sources):
            yield constant


def test_every_option_of_the_plugin_is_documented() -> None:
    text = (DOCS / "reference" / "kubectl-amc.md").read_text()
    choices: Any = next(action for action in parser()._actions if action.dest == "command").choices
    lacking = [f"## {name}" for name in choices if f"\n## {name}\n" not in text]
    for name, command in choices.items():
        options = {option for action in command._actions for option in action.option_strings} - {"-h", "--help"}
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        lacking += [f"{name} {option}" for option in sorted(options) if f"`{option}`" not in section]
    assert lacking == []


@pytest.mark.parametrize("page", [page for page in pages() if "kubectl amc" in page.read_text()], ids=relative)
def test_every_use_of_the_plugin_can_be_parsed(page: Path) -> None:
    for command, rest in AMC.findall(page.read_text()):
        words = rest.split()
        if any(word in ("…", "[options]") or word.startswith("(") for word in words) or not words:
            continue
        options = parser().parse_args([command, *[word.rstrip(".,:;") for word in words]])
        assert options.command == command


@pytest.mark.parametrize("manifest", sorted(DOCS.rglob("*.yaml")), ids=relative)
def test_every_manifest_is_yaml_of_objects(manifest: Path) -> None:
    for body in yaml.safe_load_all(manifest.read_text()):
        assert {"apiVersion", "kind", "metadata"} <= body.keys()


@pytest.mark.parametrize("page", [page for page in pages() if "\n```yaml\n" in page.read_text()], ids=relative)
def test_every_yaml_block_can_be_read(page: Path) -> None:
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        assert list(yaml.safe_load_all(block)) != [None]


def test_every_state_of_a_job_has_its_row_and_its_meaning() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \| ([^|]+) \|", (DOCS / "reference" / "rest.md").read_text(), re.MULTILINE)
    states = [name for name, meaning in rows if name in set(State) and meaning.strip()]
    assert sorted(states) == sorted(State)
