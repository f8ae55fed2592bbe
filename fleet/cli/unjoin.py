"""`fleet unjoin`: let a member go."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, MemberArgument
from fleet.cli.when import timeout_option


def unjoin(
    name: MemberArgument,
    force: Annotated[bool, typer.Option("--force", help="Give up what cannot be withdrawn.")] = False,
    timeout: Annotated[float, timeout_option("until it is gone", "1m")] = 60.0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let a member go.

    Its jobs are withdrawn and queue again, then its credentials are forgotten.
    """
    from fleet.cli import joining
    from fleet.cli.hub import connect

    joining.leave(connect(kubeconfig, data_dir, context), name, force=force, limit_s=timeout)
    print(f"{name} has left")
