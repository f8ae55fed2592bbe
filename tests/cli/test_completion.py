"""`fleet completion`, and what a shell is answered: the words of commands, and names that the hub knows."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.cli import completers
from fleet.cli.completion import relevant_commands
from fleet.cli.main import COMMANDS
from fleet.values.kubeconfig.document import write as kubeconfig_of
from tests.cli.hub import Up, fleet, until
from tests.cli.interactive import completed

TEAM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
LEAF = {"name": "vision", "namespaces": ["team-a"]}
TREE = {
    "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
    "kind": "ElasticQuotaTree",
    "metadata": {"name": "tree", "namespace": "kube-system"},
    "spec": {"root": {"name": "root", "children": [LEAF]}},
}


def answered(line: str, shell: str = "bash") -> list[str]:
    """The words that a shell shows at the end of the line."""
    words = line.split(" ")
    done = fleet(
        _FLEET_COMPLETE=f"complete_{shell}",
        COMP_WORDS="\n".join(words),
        COMP_CWORD=str(len(words) - 1),
        _TYPER_COMPLETE_ARGS=line,
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()  # one empty line for none


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", "complete -o default"), ("zsh", "compdef"), ("fish", "complete")]
)
def test_each_shell_has_a_script(shell: str, check: str) -> None:
    done = fleet("completion", shell)
    assert done.returncode == 0 and check in done.stdout and "_FLEET_COMPLETE" in done.stdout
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False, timeout=60).returncode == 0


def test_commands_options_and_their_values_need_no_hub() -> None:
    assert {"join", "jobs"} <= set(answered("fleet jo"))
    assert answered("fleet jobs --sor") == ["--sort"]
    assert answered("fleet jobs --state Que") == ["Queued"] and answered("fleet jobs --state que") == ["queued"]
    assert answered("fleet clusters --state n") == ["not-ready"]
    assert "wide" in answered("fleet queues -o ")
    assert "--watch" in answered("fleet jobs --w", "fish")


def test_only_the_command_on_the_line_is_loaded() -> None:
    assert relevant_commands(["fleet", "jobs", "-A"], COMMANDS) == ["jobs"]
    assert (
        relevant_commands(["fleet", "jo"], COMMANDS) is COMMANDS and relevant_commands(["fleet"], COMMANDS) is COMMANDS
    )


def asked(complete: Callable[[Any, str], list[str]], incomplete: str = "", **params: str | Path) -> list[str]:
    return [word for word in complete(SimpleNamespace(params=params), incomplete) if word.startswith(incomplete)]


def test_names_come_from_the_hub(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completers, "TIMEOUT_S", 60.0)
    hub, file = up.hub, up.folder / "kubeconfig"
    hub.put_object("/api/v1/namespaces", TEAM)
    hub.put_object("/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees", TREE)
    hub.put_object("/apis/batch/v1/namespaces/team-a/jobs", {**JOB, "spec": {"template": {"spec": POD}}})
    assert asked(completers.namespaces, "team", kubeconfig=file) == ["team-a"]
    assert asked(completers.jobs, kubeconfig=file, namespace="team-a") == ["train"]
    assert asked(completers.jobs, "job/", kubeconfig=file, namespace="team-a") == ["job/train"]
    assert asked(completers.queues, "root/", kubeconfig=file) == ["root/vision"]
    assert answered(f"fleet run --kubeconfig {file} --queue root/") == ["root/vision"]
    assert asked(completers.contexts, kubeconfig=file) == ["fleet"]
    assert asked(completers.members, data_dir=up.folder) == []  # the hub has none


@pytest.mark.parametrize(
    ("shell", "line", "word"),
    [
        ("bash", "fleet exec -n team-a tra", "train"),
        ("zsh", "fleet attach -n team-a tra", "train"),
        ("fish", "fleet port-forward -n team-a tra", "train"),
        ("zsh", "fleet top -n team-a tra", "train"),
        ("bash", "fleet hold queue/root/vi", "queue/root/vision"),
        ("fish", "fleet jobs --sor", "--sort"),
    ],
)
def test_real_shells_complete_names(up: Up, shell: str, line: str, word: str) -> None:
    hub = up.hub
    hub.put_object("/api/v1/namespaces", TEAM)
    hub.put_object("/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees", TREE)
    hub.put_object("/apis/batch/v1/namespaces/team-a/jobs", {**JOB, "spec": {"template": {"spec": POD}}})
    # A request for names that takes too long on a busy machine completes nothing, so the key is pressed again.
    until(f"{shell} completes", lambda: completed(shell, line, up.folder / "kubeconfig") == word, within_s=200)


def test_a_hub_that_is_away_completes_nothing_and_says_nothing(tmp_path: Path) -> None:
    away = kubeconfig_of("https://127.0.0.1:9", name="away", user="ann", namespace="", ca=None, token="x")
    (tmp_path / "away").write_text(away)
    for place in (tmp_path / "away", tmp_path / "missing"):
        assert answered(f"fleet hold --kubeconfig {place} ") == []
        assert answered(f"fleet jobs --kubeconfig {place} -n ") == []
