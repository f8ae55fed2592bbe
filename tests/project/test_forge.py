"""The files for forges, editors and hooks name what exists, and check the same as `make lint` and `.ci/run`."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.checkout import ROOT

GITHUB = ROOT / ".github"
PAGES = ("LICENSE", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")
# The kinds of fields that a form has; each but a text has an id and a label.
FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def checks() -> list[str]:
    """The targets that `make lint` runs."""
    rule = re.search(r"^lint: ([a-z -]+?) ##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    return rule[1].split()


def test_the_hooks_before_a_commit_are_the_checks_of_lint() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    assert [hook["entry"] for hook in local["hooks"]] == [f"make {check}" for check in checks()]
    for hook in local["hooks"]:
        assert (hook["language"], hook["pass_filenames"], hook["always_run"]) == ("system", False, True)


def test_each_check_of_lint_is_a_target_with_commands() -> None:
    for check in checks():
        shown = subprocess.run(["make", "-n", check], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        assert ".venv/bin/" in shown.stdout


def test_the_workflow_runs_what_must_pass_before_a_change_lands() -> None:
    workflow = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    uses = [step["uses"] for step in job["steps"] if "uses" in step]
    assert [name.partition("@")[0] for name in uses] == ["actions/checkout"]
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert job["steps"][0]["with"]["fetch-depth"] == 0
    assert workflow["permissions"] == {"contents": "read"}
    assert "make lint" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("form", ["fault.yml", "wish.yml"])
def test_a_form_for_issues_has_fields_with_labels(form: str) -> None:
    read = yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / form).read_text())
    assert read["name"] and read["description"]
    fields = [field for field in read["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in read["body"]} <= FIELDS
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields) > 0


@pytest.mark.parametrize(
    "page", [*sorted(GITHUB.rglob("*.yml")), GITHUB / "PULL_REQUEST_TEMPLATE.md"], ids=lambda p: p.name
)
def test_every_page_that_a_form_names_exists(page: Path) -> None:
    named = re.findall(r"\b(?:docs/[\w/-]+|[A-Z]{4,})\.md\b", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_editor_settings_are_those_of_the_formatter() -> None:
    text = (ROOT / ".editorconfig").read_text()
    assert "root = true" in text and "[Makefile]\nindent_style = tab" in text
    longest = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    assert f"[*.py]\nindent_size = 4\nmax_line_length = {longest}\n" in text


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_that_a_forge_looks_for_are_in_the_root(page: str) -> None:
    assert (ROOT / page).is_file()
