"""The same webhooks, registered with a real kube-apiserver and with ours: the same answers to the same requests.

Each case has configurations of its own, which select its objects by a label. Accepted differences stand in the case,
and one that has become untrue fails too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from api.access.rbac import answering
from api.admission.dynamic import DynamicAdmission
from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.conftest import open_hub
from tests.api.hook_configs import EDITS, edited
from tests.api.hooks import Body, Hooks, configuration, hook_server
from tests.api.likeness import APPLY, JSON_PATCH, MERGE, Ask, Asker, Said, described, differences
from tests.api.mutation_cases import LAST_MUTATION, MUTATIONS, WRITTEN_MUTATIONS, comparable, written_mutation
from tests.api.policy_cases import LAST as LAST_POLICY
from tests.api.policy_cases import POLICIES, WRITTEN, PolicyCase, written
from tests.api.realserver import RealServer, real_server
from tests.testbed.pki import make_pki

pytestmark = pytest.mark.xdist_group("real-apiserver")

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
NS = "/api/v1/namespaces"
MAPS = f"{NS}/hooked/configmaps"
NO_BODY = "the text has nothing in it that the webhook sent"
NAMED = "each object of a collection is asked about by its name"
OWN_WORDS = "the text is that of the JSON reader or the HTTP client"
SCHEMA_FIRST = {"message", "details"}  # the schema names the same field first, in its own words
ACCEPTED_EDITS = {"no side effects": SCHEMA_FIRST, "two conditions of one name": SCHEMA_FIRST}


@dataclass(frozen=True)
class Case:
    """`hooks`: (kind, path, more of the webhook). `asks`: a request for each; {case} stands for the name."""

    name: str
    hooks: tuple[tuple[str, str, dict[str, Any]], ...]
    asks: tuple[Ask, ...] = ()
    accepted: frozenset[str] = frozenset()
    why: str = ""


def create(case: str, what: str = "create", query: str = "", **more: Any) -> Ask:
    body = {"metadata": {"name": f"in-{case}", "labels": {"case": case}}, **more}
    return Ask(what, "POST", f"{MAPS}{query}", body)


def simple(kind: str, path: str, *accepted: str, why: str = "", called: str = "", **more: Any) -> Case:
    """One webhook, and a create. `called`: the name of the case, where the path alone is none."""
    return Case(called or f"{kind.lower()}-{path}", ((kind, path, more),), accepted=frozenset(accepted), why=why)


V, M = "Validating", "Mutating"
CONDITION = {"name": "c", "expression": "object.metadata.name == 'never'"}
BROKEN = {"name": "c", "expression": "object.data.missing == 'x'"}


def at(case: str) -> str:
    return f"{MAPS}/in-{case}"


CASES = [
    simple(V, "allow"),
    simple(V, "warn"),
    simple(V, "deny"),
    simple(V, "deny-silent"),
    simple(V, "deny-reason"),
    simple(V, "deny-code"),
    simple(V, "deny-low-code"),
    simple(V, "echo"),
    simple(M, "echo"),
    simple(V, "garbage", "message", "details", why=OWN_WORDS),
    simple(V, "garbage", called="garbage-ignored", failurePolicy="Ignore"),
    simple(V, "absent"),
    simple(V, "broken", "message", "details", why=NO_BODY),
    simple(V, "slow", timeoutSeconds=1),
    simple(V, "slow", called="slow-ignored", failurePolicy="Ignore", timeoutSeconds=1),
    simple(V, "other-uid", "message", "details", why=NO_BODY),
    simple(V, "label-one"),
    simple(M, "label-one"),
    simple(M, "no-change"),
    simple(M, "empty-patch"),
    simple(M, "repaired"),
    simple(M, "patch-without-type"),
    simple(M, "type-without-patch"),
    simple(M, "wrong-data"),
    simple(M, "bad-patch", "message", "details", why=OWN_WORDS),
    simple(M, "undecodable", "message", "details", why=OWN_WORDS),
    simple(M, "unknown-field"),
    simple(M, "deny"),
    simple(M, "counted", reinvocationPolicy="IfNeeded"),
    simple(V, "deny", called="condition-false", matchConditions=[CONDITION]),
    simple(V, "allow", called="condition-fails", matchConditions=[BROKEN]),
    simple(V, "deny", called="condition-ignored", failurePolicy="Ignore", matchConditions=[BROKEN]),
    simple(V, "deny", called="elsewhere", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "other"}}),
    simple(V, "echo", called="exact", matchPolicy="Exact"),
    Case("again", ((M, "counted", {"reinvocationPolicy": "IfNeeded"}), (M, "label-one", {}))),
    Case("not-again", ((M, "counted", {}), (M, "label-one", {}))),
    Case(
        "webhook-and-policy",
        ((M, "counted", {"reinvocationPolicy": "IfNeeded"}), (M, "label-one", {})),
        (create("webhook-and-policy", data={"n": "0"}),),
    ),
    Case("two-denials", ((V, "deny", {}), (M, "deny-code", {}))),
    Case(
        "dry-run",
        ((M, "label-one", {}),),
        (
            create("dry-run", query="?dryRun=All"),
            Ask("get", "GET", at("dry-run")),
        ),
    ),
    Case("echo-dry-run", ((V, "echo", {}),), (create("echo-dry-run", query="?dryRun=All"),)),
    Case(
        "changes",
        ((M, "counted", {}),),
        (
            create("changes", data={"a": "1"}),
            Ask(
                "put",
                "PUT",
                at("changes"),
                {"metadata": {"name": "in-changes", "labels": {"case": "changes"}}, "data": {"b": "2"}},
            ),
            Ask("merge", "PATCH", at("changes"), {"data": {"c": "3"}}, MERGE),
            Ask("json patch", "PATCH", at("changes"), [{"op": "add", "path": "/data/d", "value": "4"}], JSON_PATCH),
            Ask(
                "apply",
                "PATCH",
                f"{at('changes')}?fieldManager=m&force=true",
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "in-changes"}, "data": {"e": "5"}},
                APPLY,
            ),
            Ask("get", "GET", at("changes")),
        ),
    ),
    *[
        Case(
            f"echo-{verb}",
            (
                (
                    V,
                    "echo",
                    {
                        "rules": [
                            {
                                "operations": [operation],
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "resources": ["configmaps"],
                            }
                        ]
                    },
                ),
            ),
            (
                create(f"echo-{verb}", data={"a": "1"}),
                ask,
            ),
            *((frozenset({"message"}), NAMED) if verb == "collection" else ()),
        )
        for verb, operation, ask in (
            (
                "put",
                "UPDATE",
                Ask(
                    "put",
                    "PUT",
                    at("echo-put"),
                    {"metadata": {"name": "in-echo-put", "labels": {"case": "echo-put"}}, "data": {"b": "2"}},
                ),
            ),
            ("merge", "UPDATE", Ask("merge", "PATCH", at("echo-merge"), {"data": {"c": "3"}}, MERGE)),
            ("delete", "DELETE", Ask("delete", "DELETE", at("echo-delete"))),
            ("collection", "DELETE", Ask("collection", "DELETE", f"{MAPS}?labelSelector=case=echo-collection")),
        )
    ],
    Case(
        "delete-changed",
        (
            (
                M,
                "label-one",
                {"rules": [{"operations": ["DELETE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]},
            ),
        ),
        (
            create("delete-changed"),
            Ask("delete", "DELETE", at("delete-changed")),
        ),
    ),
]


# A webhook of each kind: the denial says that the change was seen.
LAST = Case("last", ((M, "label-one", {}), (V, "deny-labelled", {})))


def asks_of(case: Case) -> tuple[Ask, ...]:
    return case.asks or (create(case.name, data={"not a key!": "x"} if case.name.endswith("repaired") else {"a": "1"}),)


def configurations(hooks: Hooks) -> list[Body]:
    """One of each kind, with the webhooks of all cases. Those of the last one say that all are known to the server."""
    found: dict[str, list[Body]] = {V: [], M: []}
    for case in [*CASES, LAST]:
        for index, (kind, path, more) in enumerate(case.hooks):
            selected = {"matchLabels": {"case": case.name}}
            found[kind].append(hooks.hook(path, f"{case.name}-{index}", objectSelector=selected, **more))
    return [configuration(kind, "like", *listed) for kind, listed in found.items()]


async def _register(client: httpx.AsyncClient, hooks: Hooks) -> None:
    (await client.post(NS, json={"metadata": {"name": "hooked"}})).raise_for_status()
    for body in configurations(hooks):
        made = await client.post(f"{ADMISSION}/{body['kind'].lower()}s", json=body)
        assert made.status_code == 201, made.text
    params = {"metadata": {"name": "params", "labels": {"kind": "params"}}, "data": {"a": "7"}}
    (await client.post(MAPS, json=params)).raise_for_status()
    for policy in [*POLICIES, LAST_POLICY, *MUTATIONS, LAST_MUTATION]:
        word = "mutating" if policy.mutating else "validating"
        for body, plural in zip(policy.bodies(), ("policies", "policybindings"), strict=True):
            made = await client.post(f"{ADMISSION}/{word}admission{plural}", json=body)
            assert made.status_code == 201, made.text
    await _until(client, LAST.name, 400, "changed")
    await _until(client, LAST_POLICY.name, 422, "last-policy-bound")
    await _until(client, LAST_MUTATION.name, 201, '"x":"y"')


async def _until(client: httpx.AsyncClient, case: str, code: int, said: str) -> None:
    for _ in range(400):  # a server learns of its configurations a moment after they are stored
        probe = {"metadata": {"name": "probe", "labels": {"case": case}}, "data": {"a": "1"}}
        made = await client.post(f"{MAPS}?dryRun=All", json=probe)
        if made.status_code == code and said in made.text:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{case} is not asked")


async def _ask_all(server: RealServer) -> dict[str, list[tuple[Said, Said]]]:
    trust = ssl.create_default_context(cafile=str(server.ca))
    headers = {"authorization": f"Bearer {server.token}"}
    pki = make_pki(server.folder / "hooks")
    async with (
        hook_server(pki) as hooks,
        open_hub(server.folder, MemoryStore(WallClock())) as hub,
        OutgoingClient(AllowList.parse([f"127.0.0.1:{hooks.port}"])) as outgoing,
        hub.client() as ours,
        httpx.AsyncClient(base_url=server.url, headers=headers, verify=trust, timeout=20) as real,
    ):
        hub.objects.hooks = DynamicAdmission(
            hub.store, hub.registry, RandomIds(), outgoing, answering(hub.app.authorizer)
        )
        for client in (real, ours):
            await _register(client, hooks)
        askers = Asker(real), Asker(ours)
        answers = {}
        for number, (what, edit) in enumerate(EDITS.items()):
            body = edited(M if "reinvocation" in what else V, number, edit)
            ask = Ask(what, "POST", f"{ADMISSION}/{body['kind'].lower()}s?dryRun=All", body)
            answers[what] = [(await askers[0].ask(ask), await askers[1].ask(ask))]
        for what in WRITTEN:
            theirs, own = [comparable(await asker.ask(written(what))) for asker in askers]
            answers[what] = [(theirs, own)]
        for what in WRITTEN_MUTATIONS:
            ask = written_mutation(what)
            answers[what] = [(await askers[0].ask(ask), await askers[1].ask(ask))]
        for policy in [*POLICIES, *MUTATIONS]:
            answers[f"{policy.mutating} {policy.name}"] = [
                (comparable(await askers[0].ask(ask)), comparable(await askers[1].ask(ask))) for ask in policy.asks
            ]
        cases = {
            case.name: [(await askers[0].ask(ask), await askers[1].ask(ask)) for ask in asks_of(case)] for case in CASES
        }
        return answers | cases


@pytest.fixture(scope="module")
def answers() -> Iterator[dict[str, list[tuple[Said, Said]]]]:
    """The answers to each request of each case, from the real one and from ours."""
    with real_server("hooks") as server, ThreadPoolExecutor(1) as thread:
        yield thread.submit(asyncio.run, _ask_all(server)).result()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_webhooks_answer_as_they_do_for_a_kube_apiserver(
    answers: dict[str, list[tuple[Said, Said]]], case: Case
) -> None:
    found: set[str] = set()
    for ask, pair in zip(asks_of(case), answers[case.name], strict=True):
        different = differences(*pair)
        assert different.keys() <= case.accepted, f"{ask.what}: {described(different)}"
        found |= different.keys()
    assert found == case.accepted, "what is accepted as a difference is none any more"


@pytest.mark.parametrize("what", EDITS)
def test_configurations_are_taken_and_refused_as_by_a_kube_apiserver(
    answers: dict[str, list[tuple[Said, Said]]], what: str
) -> None:
    different = differences(*answers[what][0])
    assert different.keys() == ACCEPTED_EDITS.get(what, set()), described(different)


@pytest.mark.parametrize("what", [*WRITTEN, *WRITTEN_MUTATIONS])
def test_policies_are_taken_and_refused_as_by_a_kube_apiserver(
    answers: dict[str, list[tuple[Said, Said]]], what: str
) -> None:
    different = differences(*answers[what][0])
    assert different.keys() == ACCEPTED_EDITS.get(what, set()), described(different)


@pytest.mark.parametrize("case", [*POLICIES, *MUTATIONS], ids=lambda case: case.name)
def test_policies_decide_as_they_do_for_a_kube_apiserver(
    answers: dict[str, list[tuple[Said, Said]]], case: PolicyCase
) -> None:
    found: set[str] = set()
    for ask, pair in zip(case.asks, answers[f"{case.mutating} {case.name}"], strict=True):
        different = differences(*pair)
        assert different.keys() <= case.accepted, f"{ask.what}: {described(different)}"
        found |= different.keys()
    assert found == case.accepted, "what is accepted as a difference is none any more"


def test_no_two_cases_have_one_name() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    policies = [case.name for case in MUTATIONS]
    assert len(policies) == len(set(policies))
