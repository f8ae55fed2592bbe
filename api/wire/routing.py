"""From a path to what it names, as kube-apiserver reads paths.

/api/v1/…, /apis/GROUP/VERSION/… then [namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE[/REST…]]]. Everything else is a
non-resource path. A path is parsed before anything is known of kinds, since authorisation comes before existence.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.engine.selectors import split_fields
from api.engine.status import StatusError
from api.wire.rights import Attributes
from api.wire.selection import MAX_SELECTOR_CHARS
from fleet.values.names import path_segment_problems


@dataclass(frozen=True, slots=True)
class Route:
    """The object or list that a resource path names. `namespace` is "" for cluster scope and for all namespaces; for
    the Namespace object itself it is the object's name, as authorisation wants it. Steps may be empty: such a path is
    authorised as it stands, as by a kube-apiserver, and `reaches` says that it leads nowhere."""

    group: str
    version: str
    namespace: str
    resource: str
    name: str = ""
    subresource: str = ""
    rest: str = ""  # what follows the subresource, for proxies
    nested: bool = False  # the path names a namespace before the resource

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
    if "proxy" not in rest[2:5]:  # below a proxy a slash at the end is the member's to read
        while rest and not rest[-1]:
            rest = rest[:-1]
    if not rest or not version:
        return None
    namespace, nested = "", False
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest, nested = rest[2:], True
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    return Route(group, version, namespace, rest[0], name, subresource, "/".join(rest[3:]), nested)


def reaches(route: Route, group: str, resource: str, namespaced: bool) -> bool:
    """Whether a path may name this kind. An object of cluster scope is below no namespace, an object of a namespace is
    nowhere else, and no step of a path is empty. Rights in a namespace do not change that."""
    if (route.subresource and not route.name) or (route.rest and route.subresource != "proxy"):
        return False
    if not namespaced:
        return not route.nested and (not route.namespace or (group, resource) == ("", "namespaces"))
    return route.nested if route.namespace else not route.nested and not route.name


PROCESSES = ("exec", "attach", "portforward")  # subresources of pods
_CONNECTS = {"clusters": ("tunnel", "dial"), "pods": PROCESSES}  # subresources by resource
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb(method: str, route: Route, watch: bool) -> str:
    """The API verb of a request: the name in RBAC rules. "" for a method that has none. A WebSocket begins with
    GET. The right to a tunnel or to a process in a pod is that to create, so that a role that reads everything does
    not have it. This holds for a pod below clusters/NAME/proxy as for one of the hub."""
    below = connects_below(route)
    if below or route.subresource in _CONNECTS.get(route.resource, ()):
        return "create" if method == "GET" or (method == "POST" and (below or route.resource == "pods")) else ""
    named = _VERBS.get(method, "")
    if route.name or named not in ("get", "delete"):
        return named
    if named == "delete":
        return "deletecollection"
    return "watch" if watch else "list"


def connects_below(route: Route) -> str:
    """The subresource of a pod that a path below clusters/NAME/proxy connects to; "" for any other path."""
    if (route.resource, route.subresource) != ("clusters", "proxy"):
        return ""
    match route.rest.lstrip("/").split("/"):
        case ["api", "v1", "namespaces", namespace, "pods", pod, name] if namespace and pod and name in PROCESSES:
            return name
    return ""


def question_of(route: Route, asked: str, field_selector: str) -> Attributes:
    """The question for authorisation. A list or watch of one name is that object's, so that a rule for it is enough."""
    name = route.name
    if field_selector and not name and asked in ("list", "watch"):
        name = _selected_name(field_selector)
    return Attributes(asked, route.group, route.resource, route.subresource, route.namespace, name)


def _selected_name(text: str) -> str:
    """The one name that a field selector leaves, "" when it leaves several or does not parse."""
    if len(text) > MAX_SELECTOR_CHARS:
        return ""
    try:
        terms = split_fields(text.strip())
    except StatusError:
        return ""  # refused later, by the reader of the whole selector
    names = [term.value for term in terms if term.path == "metadata.name" and not term.negated]
    return names[0] if names and not path_segment_problems(names[0]) else ""


def unknown_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
