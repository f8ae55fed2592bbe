"""Answers of webhooks that make no sense: each is a refusal in the hub's own words, and says nothing of the answer."""

from __future__ import annotations

import contextlib
import json
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any

from api.admission.dynamic import DynamicAdmission
from api.admission.dynamic.review import BadAnswer, denial, verdict
from api.engine.patch import json_patch
from api.engine.status import StatusError
from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.conftest import open_hub
from tests.api.hooks import configuration, hook_server
from tests.testbed.pki import make_pki

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
ANSWERS, READ = 120, 5_000
SECRET = "SECRET"
DEEP = 2_000
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**70,
    1e308,
    "",
    SECRET,
    "x" * 5_000,
    [],
    [SECRET],
    {},
    {SECRET: SECRET},
    [[[]]],
    {"": None},
    {"a": [{"b": [SECRET]}]},
    ["\udfff".encode("utf-8", "replace").decode()],
    200,
    403,
    599,
    600,
    "JSONPatch",
    "\x00\n\r",
    {"message": SECRET},
    {"code": 99},
    {"code": "403"},
    {"code": 422, "reason": 3, "message": []},
]
OPERATIONS: list[Any] = [
    {"op": "add", "path": "/data/a", "value": "1"},
    {"op": "add", "path": "/metadata", "value": 3},
    {"op": "replace", "path": "", "value": [SECRET]},
    {"op": "remove", "path": "/metadata"},
    {"op": SECRET},
    SECRET,
    3,
    {"op": "add", "path": "/kind", "value": "Secret"},
    {"op": "move", "from": "/data", "path": "/data/a"},
    {"op": "copy", "from": "", "path": "/data/all"},
    {"op": "add", "path": "/metadata/name", "value": {"a": 1}},
    {"op": "add", "path": "/metadata/managedFields", "value": "x"},
    {"op": "test", "path": "/data"},
    None,
    {},
    {"op": "add", "path": "/metadata/labels", "value": {"a": None}},
    {"op": "add", "path": "no slash", "value": 1},
]


def review(rng: Random, uid: str) -> bytes:
    """An AdmissionReview with something wrong in it, and sometimes no such thing."""
    patch = b64encode(json.dumps([rng.choice(OPERATIONS) for _ in range(rng.randint(0, 3))]).encode()).decode()
    response = {
        "uid": uid,
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": patch,
        "warnings": ["w"],
        "auditAnnotations": {"a": "b"},
        "status": {"code": 403, "message": "m", "reason": "Forbidden"},
    }
    whole: dict[str, Any] = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    for _ in range(rng.randint(0, 2)):
        target = rng.choice([whole, response, response, response.get("status")])
        if isinstance(target, dict) and target:
            key = rng.choice(list(target))
            target[key] = rng.choice(VALUES)
            if rng.random() < 0.2:
                del target[key]
    written = json.dumps(whole).encode()
    match rng.randint(0, 12):
        case 0:
            return written[: rng.randint(0, len(written))]
        case 1:
            return json.dumps(rng.choice(VALUES)).encode()
        case 2:
            return rng.randbytes(40)
        case 3:
            return b"[" * DEEP
    return written


def test_whatever_a_webhook_answers_it_is_read_or_refused() -> None:
    rng, refused = Random(3), 0
    for number in range(READ):
        try:
            found = verdict("v1" if number % 3 else "v1beta1", "u", review(rng, "u"), mutating=number % 2 == 0)
        except BadAnswer as problem:
            refused += 1
            assert SECRET not in str(problem)
            continue
        error = denial("w", found.result)
        assert 400 <= error.code < 600 and isinstance(error.reason, str)
        with contextlib.suppress(StatusError):
            assert isinstance(json_patch({"data": {"a": "0"}, "metadata": {}}, found.patch), dict)
    assert READ / 4 < refused < READ * 3 / 4


async def test_whatever_a_webhook_answers_the_client_gets_an_object_or_a_refusal(tmp_path: Path) -> None:
    rng, pki = Random(7), make_pki(tmp_path / "pki")
    async with (
        open_hub(tmp_path, MemoryStore(WallClock())) as hub,
        hook_server(pki) as hooks,
        OutgoingClient(AllowList.parse([f"127.0.0.1:{hooks.port}"])) as outgoing,
        hub.client() as api,
    ):
        hub.objects.hooks = DynamicAdmission(hub.store, hub.registry, RandomIds(), outgoing)
        there = f"{ADMISSION}/mutatingwebhookconfigurations"
        assert (await api.post(there, json=configuration("Mutating", "w", hooks.hook("given")))).status_code == 201
        codes = set()
        for number in range(ANSWERS):
            body = {"metadata": {"name": f"m{number}"}, "data": {"a": "0"}}
            hooks.given = lambda uid: review(rng, uid)
            answer = await api.post(MAPS, json=body)
            codes.add(answer.status_code)
            said = answer.json()
            if answer.status_code >= 500:
                assert said["reason"] == "InternalError" or "denied the request" in said["message"], said
                assert "could not be answered" not in said["message"], (number, said)
            assert answer.status_code == 201 or said["kind"] == "Status", said
            assert SECRET not in said.get("message", "") or "denied the request" in said["message"], said
        assert {201, 400, 422, 500} <= codes, codes
