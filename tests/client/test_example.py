"""The program of docs/how-to/use-python.md runs, and the page shows it as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.hub import Up

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
PROGRAM = HOW_TO / "use_python.py"


def test_the_program_of_the_page_runs(up: Up) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**clean, "FLEET_DATA_DIR": str(up.folder)},
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("<pytorchjob default/first ") and "Running in cfa" in said
    for shown in (
        r"ADDED second-\w{5} Running None None",
        r"0 second-\w{5}-master-0 .* in the simulated cluster cfa",
        r"\[second-\w{5}-\w+-0\] .* in the simulated cluster cfa",
    ):
        assert any(re.fullmatch(shown, line) for line in said), (shown, said)


def test_each_block_of_the_page_is_of_the_program() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (HOW_TO / "use-python.md").read_text(), re.DOTALL)
    program = PROGRAM.read_text()
    assert len(blocks) > 5 and [block for block in blocks if block not in program] == []
