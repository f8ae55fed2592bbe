"""Authorisation answers as a real kube-apiserver's does: the same roles and bindings on both, the same questions.

The real one runs with the controller that fills aggregated roles; ours evaluates them. What may differ stands in
ACCEPTED with its reason; an entry that has become untrue fails too.
"""

from __future__ import annotations

import ast
import asyncio
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from api.access.auth import ISSUER
from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.conftest import open_hub
from tests.security import rbac_table as table
from tests.security import requests_table as requests
from tests.security.rbac_table import A, Body, Wanted
from tests.security.requests_table import Try
from tests.testbed.bed import Bed
from tests.testbed.build import parts
from tests.testbed.member import RealMember
from tests.testbed.pki import ADMIN

# One fixture asks everything: under load it takes minutes.
pytestmark = [pytest.mark.xdist_group("real-apiserver"), pytest.mark.timeout(900)]

REAL_ISSUER = "https://kubernetes.default.svc"
TOKENS = 'actor-token,actor,7,"crew"\n'
AT_ONCE = 16
T = TypeVar("T")
Pair = tuple[Any, Any]

_REQUIRED = "the schema names a field that is missing before its rule does"
_OPEN = "health and version are open, by whatever method"
_NO_NAME = "a name that no object can have is of no object: 404 instead of 400"
_SLASHES = "a path with empty steps before the resource is none of the API: either answer is a refusal"

# What is asked -> why the answers may differ. Of paths whoever asks: METHOD PATH.
ACCEPTED: dict[str, str] = {
    "tried: no kind": _REQUIRED,
    "tried: no roleRef": _REQUIRED,
    "tried: a subject of no kind": _REQUIRED,
    f"PUT /api/v1/namespaces/{A}/status": "a body without a name is taken for the object of the path",
    "GET /api/v1/namespaces//configmaps": "a namespace without a name is none; the real one shows all namespaces",
    f"GET /api/v1/namespaces/{A}/configmaps/..": _NO_NAME,
    f"GET /api/v1/namespaces/{A}/configmaps/.": _NO_NAME,
    f"BREW /api/v1/namespaces/{A}/configmaps/one": "a method that HTTP does not know is refused while it is read",
    "HEAD /version": _OPEN,
    "POST /version": _OPEN,
    "PUT /apis": "discovery is read, never written: 405",
    f"GET //api/v1/namespaces/{A}/configmaps": _SLASHES,
    f"GET ///api/v1/namespaces/{A}/configmaps/one": _SLASHES,
    f"GET /api//v1/namespaces/{A}/configmaps": _SLASHES,
    f"GET /apis//v1/namespaces/{A}/configmaps": _SLASHES,
}


def _accepted_as(what: str) -> str:
    if not what.startswith("paths: "):
        return what
    _, method, path = ast.literal_eval(what.removeprefix("paths: "))
    return f"{method} {path}"


class Side:
    """One of the two servers."""

    def __init__(self, client: httpx.AsyncClient, issuer: str) -> None:
        self._client = client
        self.issuer = issuer

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = "application/json",
        headers: Sequence[tuple[str, str]] = (),
    ) -> httpx.Response:
        """`path` is sent as it stands: no step is resolved and nothing is encoded on the way."""
        target = {"target": path.encode()}
        request = self._client.build_request(method, "/", json=body, headers=[*headers], extensions=target)
        if body is not None:
            request.headers["content-type"] = media
        return await self._client.send(request)


async def _each(items: Sequence[T], ask: Callable[[T], Awaitable[Any]]) -> list[Any]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> Any:
        async with limit:
            return await ask(item)

    return await asyncio.gather(*map(one, items))


def _review(who: str, wanted: Wanted) -> Body:
    user, groups = table.WHO[who]
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), **wanted.attributes()},
    }


def questions() -> list[tuple[str, Wanted]]:
    return [(who, wanted) for who in table.WHO for wanted in table.wanted_of(who)]


def _said(answer: httpx.Response, *, message: bool = True) -> Any:
    """Code and reason of an answer, with the message of a refusal by authorisation or validation."""
    try:
        body = answer.json()
    except ValueError:
        return answer.status_code
    if not isinstance(body, dict) or body.get("kind") != "Status" or answer.status_code < 400:
        return answer.status_code
    if not message or answer.status_code not in (403, 422):
        return answer.status_code
    return answer.status_code, body["message"].split(": RBAC: ")[0]  # the real one adds what it could not resolve


def _as(who: str) -> list[tuple[str, str]]:
    return [("impersonate-user", who)] if who else []


async def _allowed(side: Side, asked: list[tuple[str, Wanted]]) -> dict[tuple[str, Wanted], bool]:
    async def one(question: tuple[str, Wanted]) -> bool:
        answer = await side.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", _review(*question))
        assert answer.status_code == 201, answer.text
        return bool(answer.json()["status"].get("allowed", False))

    return dict(zip(asked, await _each(asked, one), strict=True))


async def _answers(side: Side) -> dict[str, Any]:
    """Everything that the tests compare."""
    got: dict[str, Any] = {"allowed": await _allowed(side, questions())}

    async def tried(item: Try) -> Any:
        return _said(await side.ask(item.method, item.path, item.body, item.media, _as(item.who)))

    tries = (*requests.GRANTS, *requests.REFUSED)
    got["tried"] = dict(zip([item.what for item in tries], await _each(tries, tried), strict=True))

    async def path(item: tuple[str, str, str]) -> Any:
        who, method, path = item
        return _said(
            await side.ask(method, path, {} if method in ("POST", "PUT") else None, headers=_as(who)), message=False
        )

    paths = [(who, *item) for who in requests.PATH_USERS for item in requests.PATHS]
    got["paths"] = dict(zip(paths, await _each(paths, path), strict=True))

    async def reviewed(item: tuple[str, Any]) -> Any:
        return _said(await side.ask("POST", *item), message=False)

    got["reviews"] = dict(zip(requests.REVIEWS, await _each(list(requests.REVIEWS.values()), reviewed), strict=True))
    return got


async def _acting(side: Side, headers: list[tuple[str, str]]) -> Any:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    encoded: Any = [(key, value.encode()) for key, value in (("authorization", "Bearer actor-token"), *headers)]
    answer = await side.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body, headers=encoded)
    if answer.status_code != 201:
        return answer.status_code
    info = answer.json()["status"]["userInfo"]
    return {**info, "groups": sorted(info.get("groups", []))}


async def _tokens(side: Side) -> dict[str, Any]:
    """What a TokenReview says of tokens for several audiences."""
    accounts = f"/api/v1/namespaces/{A}/serviceaccounts"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    assert (await side.ask("POST", accounts, account)).status_code == 201
    kept = {"static": "actor-token", "wrong": "wrong-token"}
    for name, audiences in (("plain", None), ("other", ["other"]), ("both", ["other", side.issuer])):
        spec = {"spec": {"audiences": audiences}} if audiences else {"spec": {}}
        answer = await side.ask("POST", f"{accounts}/robot/token", {"kind": "TokenRequest", **spec})
        assert answer.status_code == 201, answer.text
        kept[name] = answer.json()["status"]["token"]
    got: dict[str, Any] = {}
    for name, token in kept.items():
        for asked in (None, ["other"], [side.issuer], ["none"], ["none", "other", side.issuer]):
            review: dict[str, Any] = {"token": token, **({"audiences": asked} if asked else {})}
            answer = await side.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": review})
            status = answer.json()["status"]
            what = f"{name} for {asked}".replace(side.issuer, "us")
            meant = ["us" if audience == side.issuer else audience for audience in status.get("audiences", [])]
            got[what] = status.get("authenticated", False), sorted(meant), bool(status.get("error"))
        got[name] = (await side.ask("GET", "/api", headers=[("authorization", f"Bearer {token}")])).status_code
    await side.ask("DELETE", f"{accounts}/robot")
    for _ in range(100):  # the real one asks its cache
        answer = await side.ask("GET", "/api", headers=[("authorization", f"Bearer {kept['plain']}")])
        if answer.status_code == 401:
            break
        await asyncio.sleep(0.1)
    got["plain, after its account"] = answer.status_code
    return got


async def _until_aggregated(side: Side) -> None:
    """The controller of the real one has written every aggregated role."""
    for _ in range(300):
        roles = (await side.ask("GET", f"{table.API}/clusterroles")).json()["items"]
        left = [
            role["metadata"]["name"]
            for role in roles
            if role["metadata"]["name"].startswith("sum-") and table.OWN_RULE in (role.get("rules") or [])
        ]
        if not left:
            await asyncio.sleep(1.0)  # nested roles take another round
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"aggregated roles are not filled in: {left}")


async def _until_noticed(side: Side) -> None:
    """The real one follows roles by watches: what was deleted takes a moment to count."""
    gone = [("role-read", Wanted("get", "pods", A)), ("all-write", Wanted("create", "configmaps", A))]
    for _ in range(300):
        if not any((await _allowed(side, gone)).values()):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the deleted roles still count")


async def _compare(url: str, ca: str, folder: Path) -> dict[str, Pair]:
    trust = ssl.create_default_context(cafile=ca)
    async with open_hub(folder, MemoryStore(WallClock())) as hub:
        tokens = folder / "tokens.csv"
        tokens.write_text(tokens.read_text() + TOKENS)
        real_client = httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {ADMIN}"}, verify=trust, timeout=60
        )
        async with hub.client() as our_client, real_client:
            sides = Side(real_client, REAL_ISSUER), Side(our_client, ISSUER)
            for side in sides:
                for path, body in table.world():
                    answer = await side.ask("POST", path, body)
                    assert answer.status_code == 201, (path, body, answer.text)
            await _until_aggregated(sides[0])
            both = [await _answers(side) for side in sides]
            pairs = {
                f"{part}: {key}": (value, both[1][part][key])
                for part in both[0]
                for key, value in both[0][part].items()
            }
            for what, headers in requests.ACTING.items():
                pairs[f"acting: {what}"] = await _acting(sides[0], headers), await _acting(sides[1], headers)
            told = [await _tokens(side) for side in sides]
            pairs.update({f"token: {what}": (value, told[1][what]) for what, value in told[0].items()})
            for side in sides:
                for path in (f"{table.API}/namespaces/{A}/roles/read", f"{table.API}/clusterroles/c-write"):
                    assert (await side.ask("DELETE", path)).status_code == 200
            await _until_noticed(sides[0])
            asked = [question for question in questions() if question[0] in table.CONCERNED]
            after = [await _allowed(side, asked) for side in sides]
            pairs.update({f"after deletion: {key}": (value, after[1][key]) for key, value in after[0].items()})
            return pairs


@pytest.fixture(scope="module")
def pairs() -> Iterator[dict[str, Pair]]:
    """What the real one said, and ours, for each question."""
    with tempfile.TemporaryDirectory(prefix="fleet-rbac-") as folder:
        bed = Bed(Path(folder) / "bed", parts())
        try:
            etcd = bed._etcd()
            bed._pki.tokens.write_text(bed._pki.tokens.read_text() + TOKENS)
            member = RealMember("like", bed.folder / "like", bed._built, bed._pki, bed.processes, etcd)
            bed.members["like"] = member
            member.start_apiserver()
            member.wait_apiserver()
            member.run(
                "aggregation",
                [
                    bed._built.binary("kube-controller-manager"),
                    f"--kubeconfig={member.kubeconfig}",
                    "--controllers=clusterrole-aggregation-controller",
                    "--leader-elect=false",
                    "--secure-port=0",
                ],
            )
            with ThreadPoolExecutor(1) as thread:
                yield thread.submit(asyncio.run, _compare(member.url, str(bed._pki.ca), Path(folder))).result()
        finally:
            bed.stop()


def _check(pairs: dict[str, Pair], prefix: str) -> int:
    """Every pair of a part is equal, but for what is accepted. Returns how many there are."""
    chosen = {what: pair for what, pair in pairs.items() if what.startswith(prefix)}
    wrong = [
        f"{what}: real {real!r}, ours {ours!r}"
        for what, (real, ours) in chosen.items()
        if real != ours and _accepted_as(what) not in ACCEPTED
    ]
    assert not wrong, "\n".join(wrong)
    return len(chosen)


@pytest.mark.parametrize("who", table.WHO)
def test_a_review_says_what_a_kube_apiserver_says(pairs: dict[str, Pair], who: str) -> None:
    assert _check(pairs, f"allowed: ({who!r}, ") == len(table.wanted_of(who))


def test_both_answers_occur(pairs: dict[str, Pair]) -> None:
    asked = [real for what, (real, _) in pairs.items() if what.startswith("allowed: ")]
    assert len(asked) == len(questions()) and sum(asked) > 200 and asked.count(False) > 1000


def test_a_deleted_role_grants_nothing(pairs: dict[str, Pair]) -> None:
    assert _check(pairs, "after deletion: ") > 100
    after = {what.removeprefix("after deletion"): pair for what, pair in pairs.items() if what.startswith("after")}
    assert any(pairs[f"allowed{what}"] != pair for what, pair in after.items())


@pytest.mark.parametrize("what", [item.what for item in (*requests.GRANTS, *requests.REFUSED)])
def test_a_grant_is_given_or_refused_as_by_a_kube_apiserver(pairs: dict[str, Pair], what: str) -> None:
    assert _check(pairs, f"tried: {what}") >= 1


@pytest.mark.parametrize("who", requests.PATH_USERS)
def test_a_path_means_what_it_means_to_a_kube_apiserver(pairs: dict[str, Pair], who: str) -> None:
    assert _check(pairs, f"paths: ({who!r}, ") == len(set(requests.PATHS))


@pytest.mark.parametrize("what", requests.ACTING)
def test_acting_as_somebody_takes_the_rights_of_a_kube_apiserver(pairs: dict[str, Pair], what: str) -> None:
    assert _check(pairs, f"acting: {what}") >= 1


@pytest.mark.parametrize("what", requests.REVIEWS)
def test_a_review_is_refused_as_by_a_kube_apiserver(pairs: dict[str, Pair], what: str) -> None:
    assert _check(pairs, f"reviews: {what}") >= 1


def test_a_token_is_for_its_audiences(pairs: dict[str, Pair]) -> None:
    assert _check(pairs, "token: ") == 5 * 6 + 1


def test_what_is_accepted_as_a_difference_still_is_one(pairs: dict[str, Pair]) -> None:
    assert {_accepted_as(what) for what, (real, ours) in pairs.items() if real != ours} == set(ACCEPTED)
