"""The kinds of jobs that users have declared, for a command that reads manifests by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fleet.cli.failure import Failure
from fleet.kinds import INTERPRETERS
from fleet.kinds.declaration import BadDeclaration, read_declaration
from fleet.kinds.declared import DeclaredKind
from fleet.values.untyped import mapping

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

KIND = "WorkloadInterpreter"
DECLARATIONS = "/apis/config.fleet.io/v1alpha1/workloadinterpreters"


def know_kinds(bodies: Iterable[dict[str, Any]], hub: HubClient | None) -> None:
    """Read jobs by the declarations among `bodies`, and by those of the hub. One of the file counts before one of the
    hub, of which it is a newer text. A user who may not list those of the hub knows the shipped kinds and the file's.
    Raises Failure for a declaration of the file that cannot be read."""
    declarations: list[DeclaredKind] = []
    for body in bodies:
        if body["kind"] == KIND:
            try:
                declarations.append(DeclaredKind(read_declaration(mapping(body.get("spec")))))
            except BadDeclaration as error:
                raise Failure(f"{KIND} {body['metadata'].get('name')}: {error}") from error
    for body in _of_hub(hub):
        try:
            declarations.append(DeclaredKind(read_declaration(mapping(body.get("spec")))))
        except BadDeclaration:  # written around admission, or by an older version: it counts for nothing on the hub
            continue
    INTERPRETERS.declare(declarations)


def _of_hub(hub: HubClient | None) -> list[dict[str, Any]]:
    from fleet.cli.hub import HubRefusal

    if hub is None:
        return []
    try:
        return sorted(hub.list(DECLARATIONS), key=lambda body: str(body["metadata"]["name"]))
    except HubRefusal as refused:
        if refused.status not in (403, 404):  # 404: a hub of an older version
            raise
        return []
