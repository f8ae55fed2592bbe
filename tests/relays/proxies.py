"""The proxy to members of a hub that lives in the process of its test."""

from __future__ import annotations

from api.server.app import Api
from fleet.relays.proxy import ClusterProxy
from fleet.wellknown import CLUSTER


def proxy_of(app: Api) -> ClusterProxy:
    """The proxy that answers clusters/NAME/proxy."""
    handler = app._extra[CLUSTER, "clusters", "proxy"]
    assert isinstance(handler, ClusterProxy)
    return handler
