"""`kubectl amc get`: one listing over several members, each asked through the hub's proxy.

Members are asked at the same time, each with its own bound. A lost member costs a line on stderr and the exit status,
never the listing of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from fleet.amc import table, yamlout
from fleet.amc.client import Client, NoAnswer, ServerAnswer
from fleet.amc.discovery import Resource, discover, resolve

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
HUB_LABEL = "fleet.io/hub"  # on every object that the hub put into a member (fleet/wellknown)
MEMBERS_AT_ONCE = 32
PAGE = 500
PAGES_MAX = 2000  # a listing of a million objects ends; an endless one would be a fault of the server
J = TypeVar("J")
T = TypeVar("T")


class CommandRefusal(Exception):
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
class MemberListing:
    """The answer of one member for one kind: a Table, objects, or lines of complaint."""

    member: str
    columns: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    unserved: bool = False  # the member does not know the kind: its only complaint
    revision: str = ""  # of the member's list: where a watch goes on


def proxy(member: str) -> str:
    return f"{CLUSTERS}/{quote(member, safe='')}/proxy"


def member_names(client: Client) -> list[str]:
    """The members that are joined, in order of name. Raises NoAnswer and CommandRefusal."""
    answer = client.get(CLUSTERS)
    if not answer.ok:
        raise CommandRefusal(f"Error from server: {answer.message}")
    return sorted(item["metadata"]["name"] for item in answer.body.get("items") or [])


def of_members(client: Client, members: Sequence[str] | None) -> list[str]:
    """The members that were named; all of them for None. Raises NoAnswer and CommandRefusal."""
    return member_names(client) if members is None else list(members)


def silence(member: str, error: NoAnswer) -> str:
    """The line about a member that gives no answer."""
    late = f"no answer within {error.late_s:g} s" if error.late_s is not None else str(error)
    return f"cluster({member}): {late}"


def at_once(act: Callable[[J], T], jobs: Sequence[J]) -> list[T]:
    """`act` of each, in their order, many at the same time."""
    if not jobs:
        return []
    with ThreadPoolExecutor(min(MEMBERS_AT_ONCE, len(jobs))) as pool:
        return list(pool.map(act, jobs))


def resolve_all(client: Client, words: Iterable[str], members: Sequence[str]) -> list[Resource]:
    """Each word as a resource: kinds of the hub first, then kinds of the members. Raises CommandRefusal."""

    def served(member: str) -> list[Resource]:
        try:
            return discover(client, proxy(member))
        except NoAnswer:
            return []

    known = discover(client)
    member_kinds: list[list[Resource]] | None = None
    resources = []
    for word in words:
        resource = resolve(word, known)
        if resource is None:
            member_kinds = at_once(served, members) if member_kinds is None else member_kinds
            resource = next((one for kinds in member_kinds if (one := resolve(word, kinds)) is not None), None)
        if resource is None:
            raise CommandRefusal(f'error: the server doesn\'t have a resource type "{word}"')
        resources.append(resource)
    return resources


def run(client: Client, query: Query) -> tuple[str, list[str]]:
    """The text for stdout, and the lines for stderr: any of them means exit status 1 (but see `empty`)."""
    members = of_members(client, query.members)
    resources = resolve_all(client, query.words, members)
    jobs = [(resource, member) for resource in resources for member in members]
    answers = at_once(lambda job: ask(client, job[0], job[1], query), jobs)
    if query.members is None:
        _forgive(resources, jobs, answers)
    complaints = [line for result in answers for line in result.complaints]
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


def _forgive(
    resources: Sequence[Resource], jobs: Sequence[tuple[Resource, str]], answers: Sequence[MemberListing]
) -> None:
    """All members were asked: a member that does not serve a kind which others do has nothing to show, and is right."""
    for resource in resources:
        mine = [found for (asked, _), found in zip(jobs, answers, strict=True) if asked is resource]
        if any(not found.complaints for found in mine):
            for found in mine:
                found.complaints = [] if found.unserved else found.complaints


def empty_line(query: Query) -> str:
    """kubectl's line on stderr when nothing was found."""
    return "No resources found" + ("" if query.namespace is None else f" in {query.namespace} namespace.")


def ask(client: Client, resource: Resource, member: str, query: Query) -> MemberListing:
    result = MemberListing(member)
    wants_table = query.output in ("", "wide")
    accept = TABLE if wants_table else "application/json"
    try:
        if query.names:
            for name in query.names:
                path = proxy(member) + resource.path(query.namespace, quote(name, safe=""))
                _take(result, client.get(path, accept), resource, name)
        else:
            _list(client, result, resource, query, accept)
    except NoAnswer as error:
        result.complaints.append(silence(member, error))
    return result


def _list(client: Client, result: MemberListing, resource: Resource, query: Query, accept: str) -> None:
    parameters = {"limit": str(PAGE)}
    if query.selector:
        parameters["labelSelector"] = query.selector
    if query.field_selector:
        parameters["fieldSelector"] = query.field_selector
    for _ in range(PAGES_MAX):
        path = f"{proxy(result.member)}{resource.path(query.namespace)}?{urlencode(parameters)}"
        answer = client.get(path, accept)
        _take(result, answer, resource, "")
        following = answer.ok and isinstance(answer.body, dict) and (answer.body.get("metadata") or {}).get("continue")
        if not following:
            return
        parameters["continue"] = following


def _take(result: MemberListing, answer: ServerAnswer, resource: Resource, name: str) -> None:
    body = answer.body
    if not answer.ok or not isinstance(body, dict):
        message = answer.message
        known = isinstance(body, dict) and (body.get("details") or {}).get("name")
        if answer.status == 404 and name and (known or not isinstance(body, dict)):
            message = f'{resource.group_resource} "{name}" not found'
        elif answer.status == 404 and not known:
            message = f'the server doesn\'t have a resource type "{resource.plural}"'
            result.unserved = True
        result.complaints.append(f"cluster({result.member}): {message}")
    elif body.get("kind") == "Table":
        result.revision = str((body.get("metadata") or {}).get("resourceVersion") or "")
        result.columns = body.get("columnDefinitions") or []
        result.rows += body.get("rows") or []
    elif name:
        result.objects.append(body)
    else:
        group_version = body.get("apiVersion")
        kind = str(body.get("kind", "")).removesuffix("List")
        result.objects += [{"apiVersion": group_version, "kind": kind, **item} for item in body.get("items") or []]


def _objects(by_resource: list[tuple[Resource, list[MemberListing]]], query: Query) -> str:
    objects = [yamlout.without_managed_fields(o) for _, found in by_resource for f in found for o in f.objects]
    single = len(query.names) == 1 and len(by_resource) == 1 and query.members is not None and len(query.members) == 1
    if single and not objects:
        return ""
    body: Any = (
        objects[0]
        if single
        else {
            "apiVersion": "v1",
            "items": objects,
            "kind": "List",
            "metadata": {"resourceVersion": ""},
        }
    )
    return yamlout.as_yaml(body) if query.output == "yaml" else yamlout.as_json(body)


def _table(resource: Resource, answers: list[MemberListing], query: Query, *, prefixed: bool) -> str:
    """The members' Tables as one."""
    form = form_of(resource, answers, query, prefixed=prefixed)
    rows = [form.row(found.member, found.columns, row) for found in answers for row in found.rows]
    if not rows:
        return ""
    return "".join(line + "\n" for line in table.lines(rows if query.no_headers else [form.head, *rows]))


@dataclass(frozen=True)
class ListingForm:
    """The columns of the listing: CLUSTER after NAME, ADOPTION last (not for pods, unless wide). `prefix`: before each
    name. `column_names`: the columns of the members."""

    column_names: Sequence[str]
    spaced: bool
    adoption: bool
    labels: bool
    prefix: str

    @property
    def head(self) -> list[str]:
        names = [name.upper() for name in self.column_names]
        ends = ["ADOPTION"] * self.adoption + ["LABELS"] * self.labels
        return ["NAMESPACE"] * self.spaced + [*names[:1], "CLUSTER", *names[1:], *ends]

    def row(self, member: str, columns: list[dict[str, Any]], row: dict[str, Any]) -> list[str]:
        by_name = {c["name"]: i for i, c in enumerate(columns)}
        metadata = (row.get("object") or {}).get("metadata") or {}
        cells = row.get("cells") or []
        values = [
            table.cell(cells[by_name[n]]) if n in by_name and by_name[n] < len(cells) else "" for n in self.column_names
        ]
        values[:1] = [self.prefix + value for value in values[:1]]
        labels = metadata.get("labels") or {}
        line = [metadata.get("namespace", "")] if self.spaced else []
        line += [*values[:1], member, *values[1:]]
        line += ["Y" if HUB_LABEL in labels else "N"] if self.adoption else []
        line += [",".join(f"{k}={v}" for k, v in sorted(labels.items())) or "<none>"] if self.labels else []
        return line


def form_of(resource: Resource, answers: Sequence[MemberListing], query: Query, *, prefixed: bool) -> ListingForm:
    wide = query.output == "wide"
    columns = next((found.columns for found in answers if found.rows), None)
    if columns is None:
        columns = next((found.columns for found in answers if found.columns), [])
    return ListingForm(
        column_names=[c["name"] for c in columns if wide or not c.get("priority")],
        spaced=query.namespace is None and resource.namespaced,
        adoption=resource.group_resource != "pods" or wide,
        labels=query.show_labels,
        prefix=f"{resource.prefix}/" if prefixed else "",
    )
