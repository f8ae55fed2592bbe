"""From a path to what it names, as kube-apiserver reads paths.

/api/v1/…, /apis/GROUP/VERSION/… then [namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE[/REST…]]]. Everything else is a
non-resource path. A path is parsed before anything is known of kinds, since authorisation comes before existence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    """What a resource path names. `namespace` is "" for cluster scope and for all namespaces; for the Namespace object
    itself it is the object's name, as authorisation wants it."""

    group: str
    version: str
    namespace: str
    resource: str
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what follows the subresource, for proxies

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_NAMESPACE_SUBRESOURCES = ("status", "finalize")


def parse(path: str) -> Route | None:
    """The route of a resource path; None for any other path, discovery's /api/v1 and /apis/g/v included."""
    parts = path.split("/")
    if len(parts) < 4 or parts[0]:
        return None
    if parts[1] == "api":
        group, version, rest = "", parts[2], parts[3:]
    elif parts[1] == "apis" and len(parts) >= 5:
        group, version, rest = parts[2], parts[3], parts[4:]
        if not group:
            return None
    else:
        return None
    if rest and not rest[-1] and not (len(rest) > 3 and "proxy" in rest):
        rest = rest[:-1]  # a trailing slash
    if not rest or not rest[0] or not version:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    if len(rest) > 1 and not name:
        return None
    subresource = rest[2] if len(rest) > 2 else ""
    if len(rest) > 3 and subresource != "proxy":
        return None
    return Route(group, version, namespace, rest[0], name, subresource, "/".join(rest[3:]))


def verb(method: str, route: Route, watch: bool) -> str:
    """The API verb of a request: what RBAC rules name. "" for a method that has none."""
    if route.subresource == "proxy":
        return {
            "GET": "get",
            "HEAD": "get",
            "POST": "create",
            "PUT": "update",
            "PATCH": "patch",
            "DELETE": "delete",
        }.get(method, "")
    match method:
        case "GET" | "HEAD":
            if route.name:
                return "get"
            return "watch" if watch else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if route.name else "deletecollection"
    return ""
