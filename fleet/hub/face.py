"""The API of a hub: the server with what Fleet adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.engine.registry import Registry
from api.objects.objects import Objects
from api.server.app import Api, SubresourceHandler, build_app
from fleet.admission import rights
from fleet.console.face import Console
from fleet.members.kubeconfig import Dial
from fleet.relays.peers import own_right
from fleet.relays.proxy import ClusterProxy
from fleet.values.ports import Store


def hub_app(
    objects: Objects,
    store: Store,
    registry: Registry,
    *,
    dial: Dial | None = None,
    console: Console | None = None,
    extra_routes: Mapping[tuple[str, str, str], SubresourceHandler] | None = None,
    **arguments: Any,
) -> Api:
    """`build_app`, which gets `arguments` too, with the rules of Fleet that ask for rights, the rights of agents and
    processes of the hub, and the proxy to members. `dial` reaches members that only their agents reach. `console`: the
    pages at /console and the sessions of browsers."""
    proxy = ClusterProxy(objects, dial=dial)
    return build_app(
        objects,
        store,
        registry,
        extra_routes={**proxy.routes(), **(extra_routes or {})},
        rights=(rights.install,),
        own_right=own_right,
        pages=console,
        closes=(proxy.aclose,),
        **arguments,
    )
