"""A Prometheus outside the member, as `spec.metrics` names it: a real server by https, with a token out of a Secret."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from aiohttp import web

from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from fleet.members.gpuelsewhere import SECRET_TYPE, asked_elsewhere
from fleet.members.gpufigures import Figure, NoFigures, SourceFigures, ask
from fleet.members.gpusource import Prometheus, source_of
from fleet.simulate.wall import WallClock
from fleet.values.ports import Key, Put
from tests.api.outgoing.server import serving
from tests.testbed.pki import Pki, make_pki

ROWS = [
    {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "namespace": "team", "pod": "a", "UUID": "1"}, "value": [1, "20"]}
]


class Elsewhere:
    """The asker of a member whose figures are elsewhere."""

    def __init__(self, outgoing: OutgoingClient, store: MemoryStore) -> None:
        self._outgoing, self._store = outgoing, store

    async def member(self, path: str, within_s: float) -> bytes:
        raise NoFigures("the member is not asked")

    async def elsewhere(self, source: Prometheus, path: str, within_s: float) -> bytes:
        return await asked_elsewhere(self._outgoing, self._store, source, path, within_s)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("elsewhere") / "pki")


async def answer(request: web.Request) -> web.Response:
    assert request.path == "/prom/api/v1/query" and "DCGM_FI_DEV_GPU_UTIL" in request.query["query"]
    if request.headers.get("authorization") != "Bearer s3cret":
        return web.Response(status=403, text="s3cret is wanted")
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": ROWS}})


def secret(token: str = "s3cret", kind: str = SECRET_TYPE) -> dict[str, Any]:
    encoded = base64.b64encode(token.encode()).decode()
    metadata = {"name": "prometheus-token", "namespace": "fleet-system", "uid": "1"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": {"token": encoded}}


async def told(pki: Pki, stored: dict[str, Any] | None, allow: tuple[str, ...] = ("127.0.0.0/8",)) -> SourceFigures:
    """The figures that a Cluster with this Secret tells."""
    store, authority = MemoryStore(WallClock()), pki.ca.read_text()
    await store.start()
    if stored is not None:
        await store.commit([Put(Key("", "secrets", "fleet-system", "prometheus-token"), stored)])
    async with serving(answer, pki) as port, OutgoingClient(AllowList.parse(allow)) as outgoing:
        prometheus = {
            "url": f"https://127.0.0.1:{port}/prom",
            "caBundle": authority,
            "secretRef": {"name": "prometheus-token"},
        }
        source = source_of({"spec": {"metrics": {"prometheus": prometheus}}})
        assert source is not None
        return await ask(source, Elsewhere(outgoing, store))


async def test_the_token_of_the_secret_goes_to_the_address(pki: Pki) -> None:
    assert await told(pki, secret()) == SourceFigures([Figure("team", "a", "", 0.2)])


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (None, f"there is no Secret fleet-system/prometheus-token of type {SECRET_TYPE}"),
        (secret(kind="Opaque"), f"there is no Secret fleet-system/prometheus-token of type {SECRET_TYPE}"),
        (secret(token=""), "the Secret fleet-system/prometheus-token has no usable token"),
        (secret(token="two\nlines"), "the Secret fleet-system/prometheus-token has no usable token"),
        (secret(token="other"), "its Prometheus answers 403"),
    ],
    ids=["no Secret", "a Secret of another type", "no token", "a token of two lines", "a wrong token"],
)
async def test_why_there_are_no_figures_is_said_without_the_token(
    pki: Pki, stored: dict[str, Any] | None, why: str
) -> None:
    assert await told(pki, stored) == SourceFigures([], f"tells no GPU figures: {why}")


async def test_an_address_that_is_not_allowed_is_not_asked(pki: Pki) -> None:
    found = await told(pki, secret(), ())
    assert found.figures == [] and found.silent.startswith("tells no GPU figures: its Prometheus: ")
