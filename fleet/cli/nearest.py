"""The name that a user may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable

MOST = 3  # names that are suggested
ALIKE = 0.65
# The words of Slurm, Kubernetes and others for the commands here; a group takes those that it has.
ELSEWHERE = {
    **dict.fromkeys(("ls", "list", "get", "ps", "squeue", "qstat", "bjobs"), ("jobs", "list")),
    **dict.fromkeys(("members", "nodes", "sinfo"), ("clusters", "top")),
    **dict.fromkeys(("quota", "quotas", "tree"), ("queues",)),
    **dict.fromkeys(("kill", "stop", "scancel", "qdel", "bkill"), ("cancel", "revoke")),
    **dict.fromkeys(("rm", "remove"), ("delete", "revoke")),
    **dict.fromkeys(("sbatch", "qsub", "bsub", "apply", "create"), ("submit",)),
    **dict.fromkeys(("add", "new"), ("submit", "create")),
    **dict.fromkeys(("describe", "inspect"), ("show", "explain")),
    **dict.fromkeys(("srun", "salloc"), ("run",)),
    **dict.fromkeys(("sacct", "seff"), ("history", "report")),
    "scontrol": ("show", "explain", "hold", "release", "priority"),
    "sattach": ("attach",),
    **dict.fromkeys(("sprio", "sshare"), ("queues", "explain")),
    "sstat": ("top",),
    "sdiag": ("doctor",),
    "sreport": ("report",),
    "info": ("status",),
    "tail": ("logs",),
    **dict.fromkeys(("shell", "ssh"), ("exec",)),
    **dict.fromkeys(("start", "serve"), ("up",)),
    **dict.fromkeys(("add-cluster", "register"), ("join",)),
}


def suggestion(name: str, names: Iterable[str]) -> str:
    """The end of a message about a wrong name: the nearest of `names`, or nothing when none is near."""
    by_lower = {known.lower(): known for known in names}
    near = [by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, MOST, ALIKE)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def called_here(word: str, commands: Container[str]) -> list[str]:
    """Those of the commands that do what other systems call by this word."""
    return [command for command in ELSEWHERE.get(word.lower(), ()) if command in commands]
