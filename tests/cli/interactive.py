"""The shells of users, run as they run them: what stands on the line after Tab. They must be there (`make shells`)."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import time
from pathlib import Path

from tests.cli.hub import BIN

WITHIN_S = 120.0
_ZSH = """\
autoload -Uz compinit && compinit -u -D
source <(fleet completion zsh)
shown() { print -r -- "<line:$BUFFER>"; BUFFER= }
zle -N shown
bindkey '^I' complete-word
bindkey '^Xs' shown
print ready-to"-complete"
"""
_BASH = """\
source <(fleet completion bash)
read -ra COMP_WORDS <<< {line}
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
$(complete -p fleet | sed 's/.*-F \\([^ ]*\\).*/\\1/') fleet
echo "${{COMPREPLY[@]}}"
"""


def completed(shell: str, line: str, kubeconfig: Path) -> str:
    """The last words of `line`, as the shell completes them on a hub."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FLEET_")}
    environment = {
        **clean,
        "PATH": f"{BIN}:{clean['PATH']}",
        "FLEET_KUBECONFIG": str(kubeconfig),
        "TERM": "dumb",
        "PS1": "",
    }
    if shell == "zsh":
        return _in_zsh(line, environment)
    script = {
        "bash": ["bash", "--norc", "-c", _BASH.format(line=shlex.quote(line))],
        "fish": ["fish", "--no-config", "-c", f"fleet completion fish | source; complete -C {shlex.quote(line)}"],
    }[shell]
    done = subprocess.run(
        script, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stderr) == (0, ""), (shell, done)
    return done.stdout.partition("\t")[0].strip()


def _in_zsh(line: str, environment: dict[str, str]) -> str:
    """zsh completes in its line editor alone, which wants a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        try:
            os.write(ours, _ZSH.encode())
            _read_until(ours, r"ready-to-complete")
            os.write(ours, f"{line}\t\x18s".encode())
            return _read_until(ours, r"<line:(.*?)>").split()[-1]
        finally:
            process.kill()
            os.close(theirs)
    raise AssertionError("unreachable: the block returns or raises")


def _read_until(descriptor: int, pattern: str) -> str:
    """The last group of the pattern, once the terminal shows it."""
    read, deadline = "", time.monotonic() + WITHIN_S
    while (found := re.search(pattern, read)) is None:
        assert time.monotonic() < deadline, read
        if select.select([descriptor], [], [], 1.0)[0]:
            read += os.read(descriptor, 4096).decode(errors="replace")
    return found[found.re.groups]
