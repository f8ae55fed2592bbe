"""CRDs that are refused, and Fleet's own: seeded, kept, mended."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from api.engine.crd import crd_of, kind_of, status_of, validate
from api.objects.crds import load_crds
from api.objects.definitions import definitions
from fleet.admission.kindfiles import load_kinds
from fleet.admission.seed import seed
from tests.admission.conftest import USER, Body, Hub
from tests.api.objects.widgets import widget_crd
from tests.e2e.manifests import pytorchjob


def first(versions: Body, **changes: Any) -> Body:
    return {"versions": [{**versions["spec"]["versions"][0], **changes}]}


CRD = widget_crd()
REFUSED = [
    pytest.param({**CRD, "metadata": {"name": "wrong"}}, "metadata.name", id="a name that is not plural.group"),
    pytest.param(widget_crd(scope="Galaxy"), "spec.scope", id="no such scope"),
    pytest.param(widget_crd(versions=[]), "spec.versions", id="no storage version"),
    pytest.param(widget_crd(**first(CRD, schema={})), "spec.versions[0].schema.openAPIV3Schema", id="no schema"),
    pytest.param(
        widget_crd(**first(CRD, schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}})),
        "spec.validation.openAPIV3Schema.properties[spec].type",
        id="a field without a type",
    ),
    pytest.param(
        widget_crd(
            **first(CRD, schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "array"}}}})
        ),
        "spec.validation.openAPIV3Schema.properties[spec].items",
        id="a list of nothing",
    ),
    pytest.param(
        widget_crd(conversion={"strategy": "Webhook"}),
        "spec.conversion.webhookClientConfig",
        id="a webhook without an address",
    ),
    pytest.param(widget_crd(preserveUnknownFields=True), "spec.preserveUnknownFields", id="a schema that is none"),
    pytest.param(
        widget_crd(**first(CRD, additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec.a"}])),
        "spec.additionalPrinterColumns[0].JSONPath",
        id="a path that is none",
    ),
]


@pytest.mark.parametrize(("body", "field"), REFUSED)
async def test_a_definition_that_cannot_be_served_is_refused(hub: Hub, body: Body, field: str) -> None:
    refusal = await hub.refused(body)
    assert refusal.code == 422 and field in [cause.field for cause in refusal.causes], refusal.causes


async def test_a_definition_cannot_take_the_place_of_a_built_in_kind(hub: Hub) -> None:
    body = widget_crd(group="batch.k8s.io", names={"plural": "jobs", "kind": "Job"})
    body["metadata"]["name"] = "jobs.batch.k8s.io"
    await hub.create(body)  # another group is another kind
    body = widget_crd(group="scheduling.k8s.io", names={"plural": "priorityclasses", "kind": "PriorityClass"})
    body["metadata"]["name"] = "priorityclasses.scheduling.k8s.io"
    assert (await hub.refused(body)).code == 403


async def test_the_hubs_own_definitions_stay(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    own = deepcopy(await hub.objects.get(crds, "", "resourcebindings.work.karmada.io"))
    refusal = await hub.refused(own, "delete")
    assert refusal.code == 403 and "the hub works with this kind" in refusal.message
    own["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object"}
    assert (await hub.refused(own, "update")).code == 403


async def test_every_custom_kind_is_a_definition_and_means_the_same_when_read_back(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    for kind in hub.registry:
        if kind.builtin:
            continue
        stored = await hub.objects.get(crds, "", kind.group_resource)
        assert validate(stored) == [] and stored["spec"] == crd_of(kind)["spec"]
        assert kind_of(stored, definitions(), kind) == kind


def upstream(own: Body) -> Body:
    """The definition of a job kind as its project has it now: in another version than the hub's own."""
    newer = deepcopy(own)
    newer["spec"]["versions"][0]["name"] = "v2beta1"
    return newer


async def established(hub: Hub, name: str) -> Body:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    own = deepcopy(await hub.objects.get(crds, "", name))
    own["status"] = status_of(own)
    return (await hub.objects.update(crds, "", name, own, USER, "status")).body


async def test_a_definition_that_the_hub_brought_may_be_replaced_by_one_of_another_version(hub: Hub) -> None:
    own = await established(hub, "mpijobs.kubeflow.org")
    assert own["status"]["storedVersions"] == ["v1"]
    replaced = await hub.update(upstream(own))
    assert status_of(replaced)["storedVersions"] == ["v2beta1"]


async def test_it_stays_while_the_hub_has_jobs_of_its_version(hub: Hub) -> None:
    own = await established(hub, "pytorchjobs.kubeflow.org")
    await hub.create(pytorchjob("train"))
    refusal = await hub.refused(upstream(own), "update")
    assert [cause.field for cause in refusal.causes] == ["status.storedVersions[0]"]


async def test_seeding_again_writes_nothing_and_keeps_what_an_administrator_changed(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    jobs = deepcopy(await hub.objects.get(crds, "", "pytorchjobs.kubeflow.org"))
    jobs["spec"]["names"]["shortNames"] = ["ptj"]
    await hub.update(jobs)
    roles = hub.registry.need("rbac.authorization.k8s.io", "clusterroles")
    await hub.objects.delete(roles, "", "view", USER)
    view = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "view"}}
    await hub.create({**view, "rules": []})
    before = await hub.store.revision()
    await seed(hub.objects)
    assert await hub.store.revision() == before


async def test_the_hubs_own_definitions_follow_its_version_although_its_kinds_follow_the_stored_ones(hub: Hub) -> None:
    """A process knows the stored definitions before it seeds: what an older version wrote came back as its own."""
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")
    wanted = crd_of(hub.registry.need("work.karmada.io", "resourcebindings"))["spec"]

    def older(body: Body) -> Body:
        schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["wantedComponents"]
        return body

    await hub.objects.change(crds, "", "resourcebindings.work.karmada.io", older, USER)
    await load_crds(hub.store, hub.registry)
    assert crd_of(hub.registry.need("work.karmada.io", "resourcebindings"))["spec"] != wanted
    await seed(hub.objects, load_kinds())
    stored = await hub.objects.get(crds, "", "resourcebindings.work.karmada.io")
    assert stored["spec"] == wanted


async def test_seeding_brings_back_what_is_missing_and_mends_an_old_version(hub: Hub) -> None:
    crds = hub.registry.need("apiextensions.k8s.io", "customresourcedefinitions")

    def older(body: Body) -> Body:
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object"}
        return body

    await hub.objects.change(crds, "", "queueunits.scheduling.x-k8s.io", older, USER)
    namespaces = hub.registry.need("", "namespaces")
    for name in ("default", "kube-system", "kube-queue", "fleet-system"):
        assert (await hub.objects.get(namespaces, "", name))["status"]["phase"] == "Active"
    await seed(hub.objects)
    stored = await hub.objects.get(crds, "", "queueunits.scheduling.x-k8s.io")
    assert stored["spec"] == crd_of(hub.registry.need("scheduling.x-k8s.io", "queueunits"))["spec"]
