"""Times at the ends of the calendar: each is stored and read in every form, or refused with its field named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from api.store.memory import MemoryStore
from api.wire.protobuf.answers import envelope
from api.wire.protobuf.reading import decode
from api.wire.protobuf.writing import block, tag_of, varint
from fleet.simulate.wall import WallClock
from tests.api.conftest import Hub, open_hub
from tests.core.model.times import BEYOND, ENDS

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("times")


@pytest.fixture
async def hub(folder: Path) -> AsyncIterator[Hub]:
    async with open_hub(folder, MemoryStore(WallClock())) as opened:
        yield opened


def objects(text: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """A path and a body for each kind of a field with a time, by the field."""
    entry = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "time": text,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {}},
    }
    taint = {"key": "a", "effect": "NoExecute", "timeAdded": text}
    return {
        "lastTimestamp": (
            "/api/v1/namespaces/default/events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "a", "namespace": "default"},
                "involvedObject": {"namespace": "default"},
                "lastTimestamp": text,
            },
        ),
        "metadata.managedFields[0].time": (
            "/api/v1/namespaces/default/configmaps",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "a", "managedFields": [entry]},
            },
        ),
        "spec.taints[0].timeAdded": (
            "/apis/cluster.karmada.io/v1alpha1/clusters",
            {
                "apiVersion": "cluster.karmada.io/v1alpha1",
                "kind": "Cluster",
                "metadata": {"name": "a"},
                "spec": {"syncMode": "Push", "taints": [taint]},
            },
        ),
        "spec.renewTime": (LEASES, lease(text)),
    }


def lease(text: str) -> dict[str, Any]:
    """With six decimals, which this kind asks for."""
    whole, offset = (text[:-1], text[-1]) if text[-1] in "zZ" else (text[:-6], text[-6:])
    at = f"{whole.partition('.')[0]}.{(whole.partition('.')[2] + '000000')[:6]}{offset}"
    spec = {"renewTime": at}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize("text", ENDS)
async def test_a_time_of_the_calendar_is_read_in_every_form(hub: Hub, text: str) -> None:
    async with hub.client() as client:
        for field, (path, body) in objects(text).items():
            made = await client.post(path, json=body)
            assert made.status_code == 201, (field, made.text)
            for form in (PROTOBUF, TABLE, "application/json"):
                if form != PROTOBUF or "karmada" not in path:  # a kind that has no such form
                    assert (await client.get(f"{path}/a", headers={"accept": form})).status_code == 200, (field, form)


async def test_a_lease_of_an_early_year_is_read_by_protobuf_as_it_was_written(hub: Hub) -> None:
    async with hub.client() as client:
        await client.post(LEASES, json=lease("0001-01-01T00:00:00Z"))
        answer = await client.get(f"{LEASES}/a", headers={"accept": PROTOBUF})
        assert decode(answer.content)["spec"]["renewTime"] == "0001-01-01T00:00:00.000000Z"
        again = await client.put(f"{LEASES}/a", content=answer.content, headers={"content-type": PROTOBUF})
        assert again.status_code == 200, again.text


@pytest.mark.parametrize("text", BEYOND)
async def test_a_time_beyond_the_calendar_is_refused_and_its_field_named(hub: Hub, text: str) -> None:
    async with hub.client() as client:
        for field, (path, body) in objects(text).items():
            answer = await client.post(path, json=body)
            assert answer.status_code in (400, 422), (field, answer.text)
            said = answer.json()["message"]
            assert field in said or "cannot parse" in said, said  # Go's words about what has not the form of a time


@pytest.mark.parametrize("number", [253_402_300_800, 2**63 - 1, -62_135_596_801, -(2**63)])
async def test_a_time_in_protobuf_that_no_calendar_reaches_is_refused(hub: Hub, number: int) -> None:
    at = tag_of(1, 0) + varint(number % 2**64) + tag_of(2, 0) + varint(0)
    name, spec = block(tag_of(1), b"a"), block(tag_of(4), at)
    message = block(tag_of(1), name) + block(tag_of(2), spec)
    async with hub.client() as client:
        body = envelope("coordination.k8s.io/v1", "Lease", message)
        answer = await client.post(LEASES, content=body, headers={"content-type": PROTOBUF})
        assert answer.status_code == 400 and str(number) in answer.json()["message"], answer.text
