"""`fleet delete`: remove objects from the hub without kubectl."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.nearest import suggestion
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption


def delete(
    objects: Annotated[list[str], typer.Argument(help="KIND/NAME of each.")],
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Delete jobs, policies, anything from the hub.

    An object that cannot be deleted does not stop the others.
    """
    from fleet.amc.discovery import discover, resolve
    from fleet.cli.hub import HubRefusal, connect

    hub = connect(kubeconfig, data_dir, context)
    resources, failed = discover(hub.client), False
    for text in objects:
        kind, _, name = text.partition("/")
        resource = resolve(kind, resources) if name else None
        try:
            if resource is None:
                raise Failure(_unknown(text, [resource.singular or resource.kind.lower() for resource in resources]))
            hub.request("DELETE", resource.path(namespace or hub.namespace, name))
            print(f'{resource.prefix} "{name}" deleted')
        except Failure as failure:
            if not isinstance(failure, HubRefusal) and resource is not None:
                raise  # the hub answers no request any more
            failed = True
            print(f"fleet: {failure}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _unknown(text: str, names: Sequence[str]) -> str:
    if text and "/" not in text:
        return f'"{text}" is no KIND/NAME, such as pytorchjob/{text}'
    near = suggestion(text.partition("/")[0], names)
    return f'"{text}" is not KIND/NAME of anything that the hub serves{near}'
