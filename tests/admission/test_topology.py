"""Where the pods of a job stand: what contradicts itself is refused with its field, and the rest is taken."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from api.engine.kind import Kind
from api.objects.writing import Review
from fleet.admission.topology import stands_where_it_can
from tests.admission.conftest import USER, Body, Hub
from tests.kinds.placed import kind_of, volcano

KUEUE = "kueue.x-k8s.io/podset-"
WORKER = "spec.tfReplicaSpecs.Worker.template.metadata.annotations"


def job(own: Body | None = None, **templates: tuple[int, Body]) -> Body:
    """A TFJob of eight workers, or of these pods, with these annotations."""
    pod: Body = {"containers": [{"name": "tensorflow", "image": "i"}]}
    specs = {
        name: {"replicas": count, "template": {"metadata": {"annotations": annotations}, "spec": pod}}
        for name, (count, annotations) in (templates or {"Worker": (8, {})}).items()
    }
    meta = {"name": "j", "annotations": own or {}}
    return deepcopy(
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": meta, "spec": {"tfReplicaSpecs": specs}}
    )


def own(name: str) -> str:
    return f"metadata.annotations[fleet.io/{name}]"


BOTH: dict[str, Any] = {"PS": (2, {}), "Worker": (8, {})}
REFUSED = [
    pytest.param(job({"fleet.io/required-topology": "no label"}), own("required-topology"), "no label", id="no label"),
    pytest.param(job({"fleet.io/slices": "rack"}), own("slices"), "is not LEVEL=PODS", id="slices without a size"),
    pytest.param(job({"fleet.io/slices": "rack=3"}), own("slices"), "3 does not divide 8 pods", id="does not divide"),
    pytest.param(
        job({"fleet.io/required-topology": "rack@ps+worker,host@worker+chief"}, Chief=(1, {}), **BOTH),
        own("required-topology"),
        "has pods of rule 0, and no part of one lies within a part of the other (its rules: 0: rack of ps and worker;"
        " 1: host of chief and worker)",
        id="rules that cross",
    ),
    pytest.param(
        job({"fleet.io/required-topology": "rack@wroker"}),
        own("required-topology"),
        "'wroker' is no component of the job: worker",
        id="an unknown component",
    ),
    pytest.param(
        job({"fleet.io/most-per-domain": "rack=0"}), own("most-per-domain"), "at least 1", id="a cap below one"
    ),
    pytest.param(
        job({"fleet.io/most-per-domain": "rack=2", "fleet.io/slices": "rack=4"}),
        own("slices"),
        "2 is less than one part of 4",
        id="a cap below one part",
    ),
    pytest.param(
        job({"fleet.io/most-per-domain": "rack=6", "fleet.io/required-topology": "rack"}),
        own("most-per-domain"),
        "allows 6 of 8 pods in one rack, where metadata.annotations[fleet.io/required-topology] wants all of them",
        id="together and apart",
    ),
    pytest.param(
        job(Worker=(8, {f"{KUEUE}slice-required-topology": "rack"})),
        f"{WORKER}[{KUEUE}slice-size]",
        "at least 1",
        id="Kueue's slices without a size",
    ),
    pytest.param(
        job({"fleet.io/required-topology": ",".join(f"rack{n}" for n in range(33))}),
        own("required-topology"),
        "at most 32 rules",
        id="too many rules",
    ),
]


@pytest.mark.parametrize(("body", "field", "why"), REFUSED)
async def test_a_job_that_contradicts_itself_is_refused_with_the_field(
    hub: Hub, body: Body, field: str, why: str
) -> None:
    refusal = await hub.refused(body)
    assert refusal.code == 422
    assert [cause.field for cause in refusal.causes] == [field], refusal.causes
    assert why in refusal.causes[0].message


@pytest.mark.parametrize(
    "body",
    [
        job({"fleet.io/required-topology": "block,rack", "fleet.io/preferred-topology": "host@worker"}),
        job({"fleet.io/slices": "rack=4@worker+ps,host=2@ps"}, PS=(4, {}), Worker=(4, {})),
        job({"fleet.io/most-per-domain": "rack=6", "fleet.io/even-topology": "rack"}),
    ],
    ids=["required and preferred", "parts within parts", "evenly under a cap"],
)
async def test_rules_that_agree_are_taken(hub: Hub, body: Body) -> None:
    assert (await hub.create(body))["metadata"]["name"] == body["metadata"]["name"]


async def test_pods_without_a_template_take_preferences_only(hub: Hub) -> None:
    trainer = {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": 1}}}

    def train(name: str) -> Body:
        meta = {"name": "t", "annotations": {f"fleet.io/{name}": "rack"}}
        return {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": meta,
            "spec": {"runtimeRef": {"name": "r"}, "trainer": trainer},
        }

    assert [cause.field for cause in reviewed(train("required-topology"))[0]] == [own("required-topology")]
    assert not reviewed(train("preferred-topology"))[0]


def reviewed(new: Body, old: Body | None = None) -> tuple[list[Any], list[str]]:
    """The refusals and warnings of the one check, for a kind that the hub does not serve from the start, too."""
    interpreter = kind_of(new)
    kind = Kind(interpreter.group, "v1", interpreter.kind, "jobs", "job", True, f"{interpreter.kind}List")
    operation = "CREATE" if old is None else "UPDATE"
    review = Review(operation, kind, "", "default", new["metadata"]["name"], new, old, USER.user, False)
    return list(stands_where_it_can(interpreter)(review)), review.warnings


def test_what_no_rule_can_say_is_a_warning() -> None:
    body = job({"volcano.sh/task-topology-anti-affinity": "worker"})
    causes, warnings = reviewed(body)
    assert not causes
    [warning] = warnings
    assert warning.startswith("metadata.annotations[volcano.sh/task-topology-anti-affinity]: is not read by the hub")


def test_a_job_that_was_stored_before_goes_on_until_it_says_something_else() -> None:
    stored = job({"fleet.io/slices": "rack=3"})
    held = deepcopy(stored)
    held["metadata"]["annotations"]["fleet.io/hold"] = "true"
    assert reviewed(held, stored) == ([], [])
    other = deepcopy(stored)
    other["metadata"]["annotations"]["fleet.io/slices"] = "rack=5"
    assert len(reviewed(other, stored)[0]) == 1
    larger = deepcopy(stored)
    larger["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 10
    assert len(reviewed(larger, stored)[0]) == 1


def test_an_elastic_job_whose_rules_leave_it_one_size_is_told_which() -> None:
    body = volcano(tasks=[{"name": "w", "replicas": 8, "minAvailable": 5, "template": {"spec": {}}}])
    body["metadata"]["annotations"] = {"fleet.io/slices": "rack=8"}
    [cause] = reviewed(body)[0]
    assert cause.field == own("slices")
    assert "w may run with 5 of 8 pods, and whole parts of rack in parts of 8 need 8" in cause.message
    body["metadata"]["annotations"] = {"fleet.io/slices": "rack=2"}
    assert reviewed(body)[0] == []
