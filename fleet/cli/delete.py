"""`fleet delete`: remove objects from the hub without kubectl."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import DataDirOption, KubeconfigOption, NamespaceOption


def delete(
    objects: Annotated[list[str], typer.Argument(help="KIND/NAME of each.")],
    namespace: NamespaceOption = "default",
    kubeconfig: KubeconfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Delete jobs, policies, anything from the hub."""
    from fleet.amc.discovery import discover, resolve
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir)
    known = discover(hub.client)
    for text in objects:
        kind, _, name = text.partition("/")
        resource = resolve(kind, known) if name else None
        if resource is None:
            raise Failure(f'"{text}" is not KIND/NAME of anything that the hub serves')
        hub.request("DELETE", resource.path(namespace, name))
        print(f'{resource.prefix} "{name}" deleted')
