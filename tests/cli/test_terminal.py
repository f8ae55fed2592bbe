"""What tenants and members write steers no terminal, whatever command prints it."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet.amc import yamlout
from fleet.amc.terminal import SIGN, PlainStream, clean, plain
from fleet.cli.output import Table
from tests.cli.hub import BIN, Up, fleet
from tests.cli.snapshots import CASE, written

# The title of the window, a cleared screen, a line written over, C1, a text that runs backwards.
EVIL = "a\x1b]0;owned\x07\x1b[2J\rb\x9b31m\u202ec"
UNSAFE = "\x1b\x07\r\x9b\u202e"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("terminal") / "hub", "--members", "1")
    try:
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def steers(text: str) -> bool:
    return any(character in text for character in UNSAFE)


def test_every_character_that_steers_a_terminal_is_a_sign() -> None:
    unsafe = [*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xD800]
    assert {clean(chr(one)) for one in unsafe} == {SIGN}
    good = "tab\tline\nü 視覚 👩\u200d💻"
    assert clean(good) == good


def test_a_stream_is_plain_for_as_long_as_a_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with plain():
        print(EVIL)
    out = capsys.readouterr().out
    assert not steers(out) and out.startswith(f"a{SIGN}]0;owned{SIGN}")
    print(EVIL)
    assert capsys.readouterr().out == f"{EVIL}\n"


def test_bytes_go_past_a_plain_stream() -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    made = PlainStream(stream)
    made.buffer.write(b"\x1b")
    assert stream.buffer.getvalue() == b"\x1b"


def test_a_colored_table_has_the_colors_of_the_program_alone() -> None:
    (line,) = Table(["name", "state"], head=False, color=True).lines([{"name": EVIL, "state": "Running"}])
    assert line.count("\x1b") == 2 and not steers(line.replace("\x1b[32m", "").replace("\x1b[0m", ""))


@pytest.mark.parametrize("text", [EVIL, f"{EVIL}\nanother line", "\u202e", "\x7f: x"])
def test_a_document_says_the_same_without_such_characters(text: str) -> None:
    body = {"key": text, text: [text]}
    for made, read in ((yamlout.as_json(body), json.loads), (yamlout.as_yaml(body), yaml.safe_load)):
        assert clean(made) == made
        assert read(made) == body


@pytest.mark.parametrize("more", [(), ("--explain", EVIL), ("-o", "json"), ("--explain", "nobody\x1b[2J")])
def test_names_and_refusals_of_a_command_are_clean(tmp_path: Path, more: tuple[str, ...]) -> None:
    units = [{"id": EVIL, "leaf": "root/a", "gang": "9x8"}]
    done = fleet("decide", written(tmp_path / "case.json", CASE | {"units": units}), *more)
    assert (done.stdout or done.stderr) and not steers(done.stdout + done.stderr), done


def test_objects_of_a_member_are_clean(tmp_path: Path, up: Up) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "evil", "annotations": {"said": EVIL}},
        "data": {"said": EVIL},
    }
    manifest = tmp_path / "evil.json"
    manifest.write_text(json.dumps(body))
    amc = ("--kubeconfig", str(up.folder / "kubeconfig"), "-M")
    done = fleet("apply", "-f", str(manifest), *amc, program="kubectl-amc")
    assert done.returncode == 0, done.stderr
    for words in (("get", "configmap", "evil", "-o", "yaml"), ("describe", "configmap", "evil")):
        done = fleet(*words, *amc, program="kubectl-amc")
        assert "owned" in done.stdout and not steers(done.stdout), done


def test_a_screen_of_the_program_clears_a_terminal(up: Up) -> None:
    ours, theirs = pty.openpty()
    command = [str(BIN / "fleet"), "status", "--watch", "--data-dir", str(up.folder)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        assert os.read(ours, 7) == b"\x1b[H\x1b[2J"
    finally:
        process.kill()
        process.wait(timeout=30)
        os.close(ours)


def test_a_program_whose_output_is_closed_ends_well(up: Up) -> None:
    words = f"{BIN}/fleet jobs --data-dir {up.folder} >&- 2>&-"
    assert subprocess.run(["bash", "-c", words], timeout=180, check=False).returncode == 0
