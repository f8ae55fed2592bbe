"""What an operator's webhook would fill in or refuse, the hub does by the kind's declaration."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from api.engine.crd import kind_of
from api.objects.definitions import definitions
from fleet.kinds import interpreter_of
from tests.admission.conftest import THE_HUB, USER, Body, Hub
from tests.kinds.examples import EXAMPLES, FAIL, Example, failing, jobset, rayjob

ANYTHING: Body = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# As JobSet's own definition has it: a rule has a name, which its webhook gives.
RULES = {"type": "array", "items": {**ANYTHING, "required": ["action", "name"]}}
PROPERTIES: dict[str, Body] = {"JobSet": {"failurePolicy": {**ANYTHING, "properties": {"rules": RULES}}}}


@pytest.fixture
def known(hub: Hub) -> Hub:
    """A hub that serves the kinds of all examples, with few fields in their schemas."""
    for example in EXAMPLES:
        api_version, kind = example.body["apiVersion"], example.body["kind"]
        group, _, version = api_version.partition("/")
        spec = {**ANYTHING, "properties": PROPERTIES.get(kind, {})}
        names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        served = {"name": version, "served": True, "storage": True, "schema": schema}
        meta = {"name": f"{names['plural']}.{group}"}
        crd: Body = {
            "metadata": meta,
            "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
        }
        made = kind_of(crd, definitions())
        assert made is not None
        hub.registry.put(made)
    return hub


async def create(hub: Hub, body: Body) -> Any:
    kind = hub.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    return await hub.objects.create(kind, "default", body, USER)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: f"{one.body['kind']} {one.what}")
async def test_a_job_is_taken_and_refused_as_its_operator_would(known: Hub, example: Example) -> None:
    if example.field:
        refusal = await known.refused(deepcopy(example.body))
        assert refusal.code == 422 and example.field in [cause.field for cause in refusal.causes], refusal.causes
        return
    written = await create(known, deepcopy(example.body))
    warned = [text.partition(": ")[0] for text in written.warnings]
    assert warned == ([example.warned] if example.warned else [])


async def test_rules_of_a_failure_policy_get_the_names_that_the_webhook_gives(known: Hub) -> None:
    own = {**FAIL, "name": "mine"}
    written = await create(known, failing(dict(FAIL), own, {**FAIL, "name": ""}))
    names = [rule["name"] for rule in written.body["spec"]["failurePolicy"]["rules"]]
    assert names == ["failurePolicyRule0", "mine", "failurePolicyRule2"]
    changed = deepcopy(written.body)
    del changed["spec"]["failurePolicy"]["rules"][0]["name"]
    assert await known.update(changed) == written.body


async def test_an_applied_failure_policy_gets_its_names_too(known: Hub) -> None:
    body = failing(dict(FAIL))
    kind = known.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None
    for _ in range(2):
        written = await known.objects.patch(
            kind, "default", "job", deepcopy(body), "application/apply-patch+yaml", USER
        )
        assert written.body["spec"]["failurePolicy"]["rules"][0]["name"] == "failurePolicyRule0"


async def test_a_job_that_was_stored_before_its_rule_goes_on(known: Hub) -> None:
    body = await known.create(jobset())
    kind = known.registry.kind_of(body["apiVersion"], body["kind"])
    assert kind is not None

    def break_rule(job: Body) -> Body:
        job["spec"]["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["nobody"]}
        return job

    stored = await known.objects.change(kind, "default", "job", break_rule, THE_HUB)
    assert stored is not None
    labelled = deepcopy(stored)
    labelled["metadata"]["labels"] = {"a": "b"}
    suspended = deepcopy(await known.update(labelled))
    assert suspended["metadata"]["labels"] == {"a": "b"}
    suspended["spec"]["suspend"] = True
    assert "successPolicy" in (await known.refused(suspended, "update")).message


def test_the_rules_of_a_large_job_have_a_bound_together() -> None:
    """Of 4,000 rules that each look through 4,000 names, as many are asked as the steps allow, and no fault is seen."""
    body = failing(*({**FAIL, "name": f"r{i}", "targetReplicatedJobs": ["nobody"]} for i in range(4_000)))
    body["spec"]["replicatedJobs"] = [{"name": f"job{i}", "template": {}} for i in range(4_000)]
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    assert interpreter is not None
    assert len(list(interpreter.faults(body))) < 100


def test_a_job_on_a_cluster_that_is_there_is_the_pod_that_submits_it() -> None:
    body = rayjob(clusterSelector={"ray.io/cluster": "shared"})
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    assert interpreter is not None
    (only,) = interpreter.components(body)
    assert (only.name, only.replicas, only.requests["cpu"]) == ("default-submitter", 1, 500)
    assert not interpreter.together(only.name)
