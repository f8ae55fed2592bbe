"""The commands of interactive jobs. Each ends by itself when nobody has used it for the idle limit.

A shell is Bash, whose TMOUT ends it at its prompt: a command that runs is use, however long it takes. A notebook server
ends kernels and terminals without activity, connected to a browser or not, and then itself. Kernels that compute are in
use. Either job succeeds then, and gives its room back.
"""

from __future__ import annotations

from fleet.submission.request import Body, InteractiveKind

PORT = 8888
TIME_S = 8 * 3600  # the walltime of an interactive job whose user gave none
_LOOK_MOST_S = 60


def command_of(what: InteractiveKind, idle_s: int) -> list[str]:
    if what is InteractiveKind.SHELL:
        return ["sh", "-c", "bash; exit 0"]  # the last command of a session is no verdict on the job
    look = min(_LOOK_MOST_S, idle_s)
    return [
        "jupyter",
        "lab",
        "--ip=0.0.0.0",
        f"--port={PORT}",
        "--no-browser",
        f"--ServerApp.shutdown_no_activity_timeout={idle_s}",
        f"--MappingKernelManager.cull_idle_timeout={idle_s}",
        f"--MappingKernelManager.cull_interval={look}",
        "--MappingKernelManager.cull_connected=True",
        f"--TerminalManager.cull_inactive_timeout={idle_s}",
        f"--TerminalManager.cull_interval={look}",
    ]


def prepare(container: Body, what: InteractiveKind) -> None:
    """What the container needs beside its command."""
    if what is InteractiveKind.SHELL:
        container.update(stdin=True, tty=True)
    else:
        container["ports"] = [{"name": "notebook", "containerPort": PORT}]


def variables(what: InteractiveKind, idle_s: int) -> dict[str, str]:
    return {"TMOUT": str(idle_s)} if what is InteractiveKind.SHELL else {}
