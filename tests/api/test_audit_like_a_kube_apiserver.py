"""The same requests under the same audit policy, to a real kube-apiserver and to ours: the same events, field by field.

Each request gives its own Audit-ID, by which its events are found. What no two servers can share is taken out as for
answers. Accepted differences stand with the request, and one that has become untrue fails too.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.audit.event import REASON
from api.audit.face import Audit
from api.audit.policy import parse
from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.conftest import open_hub
from tests.api.likeness import APPLY, JSON, JSON_PATCH, MERGE, TABLE, described, parts, settled
from tests.api.realserver import RealServer, real_server
from tests.api.sink import Kept

pytestmark = pytest.mark.xdist_group("real-apiserver")

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [Panic]
rules:
- {level: None, resources: [{group: "", resources: [endpoints]}]}
- {level: None, userGroups: [nobody-here]}
- {level: Metadata, resources: [{group: "", resources: [secrets, serviceaccounts/token]}]}
- {level: Metadata, resources: [{group: authentication.k8s.io}]}
- {level: Metadata, namespaces: [quiet], omitStages: [RequestReceived]}
- {level: Request, resources: [{group: "", resources: [services], resourceNames: [named]}]}
- {level: RequestResponse, verbs: [patch], resources: [{group: "", resources: [configmaps]}], omitManagedFields: true}
- {level: RequestResponse, resources: [{group: "", resources: ["configmaps", "*/status", "pods/*"]}]}
- {level: Metadata, nonResourceURLs: ["/api*", "/version", "/readyz", "/openapi/*"]}
- {level: Request, users: [alice]}
- {level: RequestResponse, resources: [{group: rbac.authorization.k8s.io}]}
- {level: Metadata, resources: [{group: ""}, {group: "*", resources: [leases]}]}
"""
NS, MAPS = "/api/v1/namespaces", "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
AS_ALICE = {"impersonate-user": "alice", "impersonate-group": "dev"}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
DEFAULTS = "the request is logged as it was sent, before defaults are filled in"
LAST = "ResponseComplete"
OPEN = "these paths are answered before credentials are looked at"
CONSTRAINED = "one kind of impersonation alone; the rights of everybody are no bindings"


@dataclass(frozen=True)
class Case:
    """One request. `accepted`: paths that differ, or the beginning of them."""

    what: str
    method: str
    path: str
    body: Any = None
    media: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    accepted: frozenset[str] = frozenset()
    why: str = ""


def case(
    what: str,
    method: str,
    path: str,
    body: Any = None,
    *accepted: str,
    why: str = "",
    media: str = JSON,
    **headers: str,
) -> Case:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Case(what, method, path, body, media, named, frozenset(accepted), why)


ROLE = {"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}
BINDING = {
    "metadata": {"name": "devs-read"},
    "subjects": [{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}],
    "roleRef": {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"},
}
CASES = [
    case("create", "POST", MAPS, MAP),
    case("create again", "POST", MAPS, MAP),
    case("create dry-run", "POST", f"{MAPS}?dryRun=All", {**MAP, "metadata": {"name": "n"}}),
    case(
        "create without a name",
        "POST",
        MAPS,
        {**MAP, "metadata": {"generateName": "m-"}},
        "responseObject.metadata.name",
        why="the servers generate it",
    ),
    case("create elsewhere", "POST", f"{NS}/none/configmaps", MAP),
    case("get", "GET", f"{MAPS}/m"),
    case("get table", "GET", f"{MAPS}/m", accept=TABLE),
    case("get nothing", "GET", f"{MAPS}/none"),
    case("put", "PUT", f"{MAPS}/m", {**MAP, "data": {"b": "2"}}),
    case("merge", "PATCH", f"{MAPS}/m", {"data": {"c": "3"}}, media=MERGE),
    case("json patch", "PATCH", f"{MAPS}/m", [{"op": "add", "path": "/data/d", "value": "4"}], media=JSON_PATCH),
    case(
        "apply",
        "PATCH",
        f"{MAPS}/applied?fieldManager=me&force=true",
        {**MAP, "metadata": {"name": "applied"}},
        media=APPLY,
    ),
    case(
        "bad body",
        "POST",
        MAPS,
        b"{",
        "responseStatus.message",
        "responseObject.message",
        why="the text is that of the JSON reader",
    ),
    case("list", "GET", f"{MAPS}?limit=1&labelSelector=x%3Dy"),
    case("list one", "GET", f"{MAPS}?fieldSelector=metadata.name%3Dm"),
    case("watch", "GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0"),
    case(
        "delete",
        "DELETE",
        f"{MAPS}/applied",
        {"propagationPolicy": "Background"},
        "requestObject.apiVersion",
        "requestObject.kind",
        why=DEFAULTS,
    ),
    case("delete without options", "DELETE", f"{MAPS}/m"),
    case("delete nothing", "DELETE", f"{MAPS}/m"),
    case("delete collection", "DELETE", f"{MAPS}?labelSelector=x%3Dy"),
    case("secret", "POST", f"{NS}/default/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "hush"}}),
    case("secrets", "GET", f"{NS}/default/secrets?limit=500"),
    case("token", "POST", f"{NS}/default/serviceaccounts/none/token", {"spec": {"expirationSeconds": 3600}}),
    case("review", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}),
    case(
        "service", "POST", f"{NS}/default/services", {"metadata": {"name": "named"}, "spec": {"ports": [{"port": 80}]}}
    ),
    case("named", "GET", f"{NS}/default/services/named"),
    case(
        "status",
        "PATCH",
        f"{NS}/default/status",
        {"metadata": {"labels": {"a": "b"}}},
        "responseObject.metadata.managedFields",
        why="another process made the namespace",
        media=MERGE,
    ),
    case("endpoints", "GET", f"{NS}/default/endpoints"),
    case("quiet", "GET", f"{NS}/quiet/configmaps"),
    case("discovery", "GET", "/api/v1"),
    case("ready", "GET", "/readyz", None, "user", "annotations", why=OPEN),
    case("version", "GET", "/version", None, "user", "annotations", why=OPEN),
    case("no path", "GET", "/apiary", None, "responseStatus", why="ours is a Status, theirs a text"),
    case("no rule", "GET", "/metrics/none"),
    case(
        "no kind",
        "GET",
        "/api/v1/namespaces/default/nothings",
        None,
        "responseStatus.details",
        why="empty details say as much as none",
    ),
    case("role", "POST", f"{RBAC}/roles", ROLE, "requestObject.apiVersion", "requestObject.kind", why=DEFAULTS),
    case(
        "binding",
        "POST",
        f"{RBAC}/rolebindings",
        BINDING,
        "requestObject.apiVersion",
        "requestObject.kind",
        why=DEFAULTS,
    ),
    case(
        "impersonated list",
        "GET",
        f"{MAPS}?labelSelector=x%3Dy",
        None,
        "authenticationMetadata",
        why=CONSTRAINED,
        **AS_ALICE,
    ),
    case(
        "denied",
        "POST",
        f"{NS}/default/services",
        {"metadata": {"name": "x"}},
        "authenticationMetadata",
        why=CONSTRAINED,
        **AS_ALICE,
    ),
    case(
        "discovery of others",
        "GET",
        "/apis",
        None,
        "authenticationMetadata",
        f"annotations.{REASON}",
        why=CONSTRAINED,
        **AS_ALICE,
    ),
    case("wrong credentials", "GET", MAPS, authorization="Bearer no-such-token"),
    case("by way of proxies", "GET", f"{MAPS}/none", x_forwarded_for="10.0.0.1, 10.0.0.2", x_real_ip="10.0.0.3"),
    case("a long agent", "GET", f"{MAPS}/none", user_agent="a" * 2000),
]


async def _ask(client: httpx.AsyncClient, number: int, case: Case) -> str:
    headers = {
        "content-type": case.media,
        "user-agent": "likeness/1",
        "audit-id": f"ask-{number}",
        **dict(case.headers),
    }
    content = case.body if isinstance(case.body, bytes) or case.body is None else json.dumps(case.body)
    answer = await client.request(case.method, case.path, content=content, headers=headers)
    return str(answer.headers.get("audit-id", ""))


async def _until_known(client: httpx.AsyncClient) -> None:
    """A real one learns of bindings a moment after they are stored; ours at once."""
    deadline = time.monotonic() + 30
    while (await client.get(MAPS, headers=AS_ALICE)).status_code != 200:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def _ask_all(server: RealServer, log: Path, folder: Path) -> tuple[list[Any], list[Any], list[tuple[str, str]]]:
    trust = ssl.create_default_context(cafile=str(server.ca))
    kept, clock, said = Kept(), WallClock(), []
    audit = Audit(parse(POLICY.encode()), [kept], clock)
    async with (
        open_hub(folder, MemoryStore(clock), audit) as hub,
        hub.client() as ours,
        httpx.AsyncClient(
            base_url=server.url, headers={"authorization": f"Bearer {server.token}"}, verify=trust, timeout=20
        ) as real,
    ):
        for number, case in enumerate(CASES):
            for client in (real, ours) if case.what == "impersonated list" else ():
                await _until_known(client)
            said.append((await _ask(real, number, case), await _ask(ours, number, case)))
        theirs = await _all_of(lambda: [line for line in log.read_bytes().split(b"\n")[:-1] if line])
        return theirs, await _all_of(lambda: list(kept.lines)), said


async def _all_of(lines: Callable[[], list[bytes]]) -> list[Any]:
    """The events, once the last event of the last request is among them."""
    deadline = time.monotonic() + 30
    while True:
        events = [json.loads(line) for line in await asyncio.to_thread(lines)]
        if any(event["auditID"] == f"ask-{len(CASES) - 1}" and event["stage"] == LAST for event in events):
            return events
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Any], list[Any], list[tuple[str, str]]]]:
    """The events of both, and the ids that both say in their answers."""
    folder = tmp_path_factory.mktemp("audit")
    log, policy = folder / "audit.log", folder / "policy.yaml"
    policy.write_text(POLICY)
    options = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with real_server("audit", *options) as server, ThreadPoolExecutor(1) as thread:
        yield thread.submit(asyncio.run, _ask_all(server, log, folder)).result()


def events_of(events: list[Any], number: int) -> list[Any]:
    """The events of one request, without what no two servers share."""
    found = []
    for event in events:
        if event["auditID"] == f"ask-{number}":
            for name in ("requestReceivedTimestamp", "stageTimestamp"):
                assert event[name].endswith("Z") and len(event[name]) == len("2026-01-01T00:00:00.000000Z")
            found.append(settled({k: v for k, v in event.items() if not k.endswith("Timestamp")}))
    return found


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.what for case in CASES])
def test_events_are_those_of_a_kube_apiserver(asked: Any, number: int) -> None:
    theirs, ours = events_of(asked[0], number), events_of(asked[1], number)
    assert [event["stage"] for event in ours] == [event["stage"] for event in theirs]
    found: set[str] = set()
    for index, (real, mine) in enumerate(zip(theirs, ours, strict=True)):
        for path, left, right in parts(real, mine, f"{index}"):
            known = next((name for name in CASES[number].accepted if path.partition(".")[2].startswith(name)), "")
            assert known, described({path: (left, right)})
            found.add(known)
    assert found == CASES[number].accepted, "what is accepted as a difference is none any more"


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.what for case in CASES])
def test_answers_name_the_id_of_the_request(asked: Any, number: int) -> None:
    assert asked[2][number] == (f"ask-{number}", f"ask-{number}")
