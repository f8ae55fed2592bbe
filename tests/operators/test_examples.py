"""What the hub takes and refuses of the kinds of other projects, asked of their own definitions and webhooks.

A member asks the definition of a kind, and JobSet's webhooks. KubeRay and the MPI operator look at a job only when it
is stored: of them the examples that are taken are asked.
"""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

import httpx
import pytest

from fleet.admission.unread import fields_of, tables
from tests.admission.schemas import found_at, uncovered
from tests.kinds.examples import JOBSETS, MPI, RAY, Body, Example
from tests.testbed.member import RealMember
from tests.testbed.operators.build import objects


def of(*examples: Example) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("example", examples, ids=lambda one: f"{one.body['kind']} {one.what}")


def made(member: RealMember, body: Body) -> httpx.Response:
    """The answer to its creation, without storing it."""
    path = f"/apis/{body['apiVersion']}/namespaces/default/{body['kind'].lower()}s?dryRun=All"
    with member.new_client(30) as client:
        return client.post(path, json=deepcopy(body))


class TestJobSet:
    operators: ClassVar = ("jobset",)

    @of(*JOBSETS)
    def test_its_webhook_takes_and_refuses_the_same(self, member: RealMember, example: Example) -> None:
        answer = made(member, example.body)
        assert (answer.status_code == 201) == (not example.field), answer.text

    def test_its_webhook_gives_the_same_names(self, member: RealMember) -> None:
        example = next(one for one in JOBSETS if one.what == "a rule without a name")
        rules = made(member, example.body).json()["spec"]["failurePolicy"]["rules"]
        assert [rule["name"] for rule in rules] == ["failurePolicyRule0"]


class TestKubeRay:
    operators: ClassVar = ("kuberay",)

    @of(*(example for example in RAY if not example.field))
    def test_its_definitions_take_what_the_hub_takes(self, member: RealMember, example: Example) -> None:
        assert made(member, example.body).status_code == 201


class TestMpi:
    operators: ClassVar = ("mpi",)

    @of(*(example for example in MPI if not example.field))
    def test_its_definition_takes_what_the_hub_takes(self, member: RealMember, example: Example) -> None:
        assert made(member, example.body).status_code == 201


def definitions(name: str) -> list[tuple[str, Body]]:
    """The kinds of a project that the hub declares, each with the schema of its spec in the newest version."""
    found = []
    for body in objects(name):
        kind = f"{body['spec']['group']} {body['spec']['names']['kind']}" if "versions" in body.get("spec", {}) else ""
        if kind in tables():
            version = next(one for one in body["spec"]["versions"] if one["storage"])
            found.append((kind, version["schema"]["openAPIV3Schema"]))
    return found


# Fields of releases after the one that is built here: Trainer 2.2, and what its proposal 2899 has for later.
LATER = {"trainer.kubeflow.org TrainJob": {"spec.activeDeadlineSeconds", "spec.ttlSecondsAfterFinished"}}


@pytest.mark.parametrize("name", ["jobset", "kuberay", "lws", "mpi", "trainer", "volcano"])
def test_the_table_of_fields_fits_the_definitions(name: str) -> None:
    kinds = definitions(name)
    assert kinds
    for kind, schema in kinds:
        fields = {path: field for path, field in fields_of(kind).items() if "emplate." not in path}
        assert {path for path in fields if found_at(schema, path) is None} == LATER.get(kind, set()), kind
        assert list(uncovered(schema["properties"]["spec"], "spec", fields, covered=False)) == [], kind
