"""A shell job ends when nobody types at its prompt."""

from __future__ import annotations

import os
import pty
import subprocess

from fleet.submission import InteractiveKind
from fleet.submission.interactive import command_of, variables


def test_a_shell_that_nobody_uses_ends_well_whatever_its_last_command_said() -> None:
    ours, its = pty.openpty()
    try:
        environment = {**os.environ, **variables(InteractiveKind.SHELL, 1)}
        process = subprocess.Popen(
            command_of(InteractiveKind.SHELL, 1),
            stdin=its,
            stdout=its,
            stderr=its,
            env=environment,
            start_new_session=True,
        )
        os.write(ours, b"false\n")
        assert process.wait(60) == 0
    finally:
        os.close(ours)
        os.close(its)
