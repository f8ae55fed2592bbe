"""`kubectl amc get`: one listing over several members, each asked through the hub's proxy.

Members are asked at the same time, each with its own bound. A lost member costs a line on stderr and the exit status,
never the listing of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from fleet.amc import table, yamlout
from fleet.amc.client import Answer, Client, NoAnswer
from fleet.amc.discovery import Resource, discover, resolve

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
HUB_LABEL = "fleet.io/hub"  # on every object that the hub put into a member (fleet/wellknown)
MEMBERS_AT_ONCE = 16
PAGE = 500
PAGES_MAX = 2000  # a listing of a million objects ends; an endless one would be a fault of the server


class Refused(Exception):
    """The command cannot be done at all; the text is the line for the user."""


@dataclass(frozen=True)
class Query:
    """The objects to show. `members=None`: all. `namespace=None`: all of them (-A)."""

    words: Sequence[str]  # kinds, comma-separated words already split
    names: Sequence[str]
    members: Sequence[str] | None
    namespace: str | None
    selector: str = ""
    field_selector: str = ""
    output: str = ""
    show_labels: bool = False
    no_headers: bool = False


@dataclass
class Found:
    """The answer of one member for one kind: a Table, objects, or lines of complaint."""

    member: str
    columns: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    unserved: bool = False  # the member does not know the kind: its only complaint


def proxy(member: str) -> str:
    return f"{CLUSTERS}/{quote(member, safe='')}/proxy"


def member_names(client: Client) -> list[str]:
    """The members that are joined, in order of name. Raises NoAnswer and Refused."""
    answer = client.get(CLUSTERS)
    if not answer.ok:
        raise Refused(f"Error from server: {answer.message}")
    return sorted(item["metadata"]["name"] for item in answer.body.get("items") or [])


def resolve_all(client: Client, words: Iterable[str], members: Sequence[str]) -> list[Resource]:
    """Each word as a resource: kinds of the hub first, then kinds of the members. Raises Refused."""
    known = discover(client)
    found = []
    for word in words:
        resource = resolve(word, known)
        for member in members if resource is None else ():
            try:
                resource = resolve(word, discover(client, proxy(member)))
            except NoAnswer:
                continue
            if resource is not None:
                break
        if resource is None:
            raise Refused(f'error: the server doesn\'t have a resource type "{word}"')
        found.append(resource)
    return found


def run(client: Client, query: Query) -> tuple[str, list[str]]:
    """The text for stdout, and the lines for stderr: any of them means exit status 1 (but see `empty`)."""
    members = list(query.members) if query.members is not None else member_names(client)
    resources = resolve_all(client, query.words, members)
    jobs = [(resource, member) for resource in resources for member in members]
    if jobs:
        with ThreadPoolExecutor(min(MEMBERS_AT_ONCE, len(jobs))) as pool:
            answers = list(pool.map(lambda job: _ask(client, job[0], job[1], query), jobs))
    else:
        answers = []
    if query.members is None:
        _forgive(resources, jobs, answers)
    complaints = [line for found in answers for line in found.complaints]
    by_resource = [
        (resource, [f for (r, _), f in zip(jobs, answers, strict=True) if r is resource]) for resource in resources
    ]
    if query.output in ("yaml", "json"):
        return _objects(by_resource, query), complaints
    if query.output == "name":
        lines = [f"{r.prefix}/{o['metadata']['name']}" for r, found in by_resource for f in found for o in f.objects]
        return "".join(line + "\n" for line in lines), complaints
    blocks = [_table(resource, found, query, prefixed=len(resources) > 1) for resource, found in by_resource]
    return "\n".join(block for block in blocks if block), complaints


def _forgive(resources: Sequence[Resource], jobs: Sequence[tuple[Resource, str]], answers: Sequence[Found]) -> None:
    """All members were asked: a member that does not serve a kind which others do has nothing to show, and is right."""
    for resource in resources:
        mine = [found for (asked, _), found in zip(jobs, answers, strict=True) if asked is resource]
        if any(not found.complaints for found in mine):
            for found in mine:
                found.complaints = [] if found.unserved else found.complaints


def empty_line(query: Query) -> str:
    """kubectl's line on stderr when nothing was found."""
    return "No resources found" + ("" if query.namespace is None else f" in {query.namespace} namespace.")


def _ask(client: Client, resource: Resource, member: str, query: Query) -> Found:
    found = Found(member)
    wants_table = query.output in ("", "wide")
    accept = TABLE if wants_table else "application/json"
    try:
        if query.names:
            for name in query.names:
                path = proxy(member) + resource.path(query.namespace, quote(name, safe=""))
                _take(found, client.get(path, accept), resource, name)
        else:
            _list(client, found, resource, query, accept)
    except NoAnswer as error:
        found.complaints.append(f"cluster({member}): {error}")
    return found


def _list(client: Client, found: Found, resource: Resource, query: Query, accept: str) -> None:
    parameters = {"limit": str(PAGE)}
    if query.selector:
        parameters["labelSelector"] = query.selector
    if query.field_selector:
        parameters["fieldSelector"] = query.field_selector
    for _ in range(PAGES_MAX):
        path = f"{proxy(found.member)}{resource.path(query.namespace)}?{urlencode(parameters)}"
        answer = client.get(path, accept)
        _take(found, answer, resource, "")
        following = answer.ok and isinstance(answer.body, dict) and (answer.body.get("metadata") or {}).get("continue")
        if not following:
            return
        parameters["continue"] = following


def _take(found: Found, answer: Answer, resource: Resource, name: str) -> None:
    body = answer.body
    if not answer.ok or not isinstance(body, dict):
        message = answer.message
        known = isinstance(body, dict) and (body.get("details") or {}).get("name")
        if answer.status == 404 and name and (known or not isinstance(body, dict)):
            message = f'{resource.group_resource} "{name}" not found'
        elif answer.status == 404 and not known:
            message = f'the server doesn\'t have a resource type "{resource.plural}"'
            found.unserved = True
        found.complaints.append(f"cluster({found.member}): {message}")
    elif body.get("kind") == "Table":
        found.columns = body.get("columnDefinitions") or []
        found.rows += body.get("rows") or []
    elif name:
        found.objects.append(body)
    else:
        group_version = body.get("apiVersion")
        kind = str(body.get("kind", "")).removesuffix("List")
        found.objects += [{"apiVersion": group_version, "kind": kind, **item} for item in body.get("items") or []]


def _objects(by_resource: list[tuple[Resource, list[Found]]], query: Query) -> str:
    objects = [yamlout.without_managed_fields(o) for _, found in by_resource for f in found for o in f.objects]
    single = len(query.names) == 1 and len(by_resource) == 1 and query.members is not None and len(query.members) == 1
    if single and not objects:
        return ""
    body: Any = objects[0] if single else {
        "apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""},
    }  # fmt: skip
    return yamlout.as_yaml(body) if query.output == "yaml" else yamlout.as_json(body)


def _table(resource: Resource, answers: list[Found], query: Query, *, prefixed: bool) -> str:
    """The members' Tables as one: CLUSTER after NAME, ADOPTION last (not for pods, unless wide)."""
    wide = query.output == "wide"
    adoption = resource.group_resource != "pods" or wide
    spaced = query.namespace is None and resource.namespaced
    columns = next((found.columns for found in answers if found.rows), [])
    shown = [c["name"] for c in columns if wide or not c.get("priority")]
    rows: list[list[str]] = []
    for found in answers:
        by_name = {c["name"]: i for i, c in enumerate(found.columns)}
        for row in found.rows:
            metadata = (row.get("object") or {}).get("metadata") or {}
            cells = row.get("cells") or []
            values = [table.cell(cells[by_name[n]]) if n in by_name and by_name[n] < len(cells) else "" for n in shown]
            if prefixed and values:
                values[0] = f"{resource.prefix}/{values[0]}"
            labels = metadata.get("labels") or {}
            line = [metadata.get("namespace", "")] if spaced else []
            line += [*values[:1], found.member, *values[1:]]
            line += ["Y" if HUB_LABEL in labels else "N"] if adoption else []
            line += [",".join(f"{k}={v}" for k, v in sorted(labels.items())) or "<none>"] if query.show_labels else []
            rows.append(line)
    if not rows:
        return ""
    head = ["NAMESPACE"] if spaced else []
    head += [*(n.upper() for n in shown[:1]), "CLUSTER", *(n.upper() for n in shown[1:])]
    head += ["ADOPTION"] if adoption else []
    head += ["LABELS"] if query.show_labels else []
    return "".join(line + "\n" for line in table.lines(rows if query.no_headers else [head, *rows]))
