"""The kinds that Fleet brings: their files are complete, their schemas are real, and reading them is cheap."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest

from api.engine.registry import Registry
from api.engine.schemas import SCHEMA_FROM, collapse
from api.objects.definitions import definitions
from api.server import kindfiles
from fleet.admission.kindfiles import FOLDER, load_kinds

KINDS = Registry(load_kinds())

EXPECTED = {
    "": "namespaces configmaps secrets serviceaccounts events persistentvolumeclaims services pods nodes "
    "resourcequotas limitranges endpoints persistentvolumes podtemplates replicationcontrollers "
    "componentstatuses",
    "rbac.authorization.k8s.io": "roles rolebindings clusterroles clusterrolebindings",
    "coordination.k8s.io": "leases",
    "certificates.k8s.io": "certificatesigningrequests",
    "events.k8s.io": "events",
    "scheduling.k8s.io": "priorityclasses",
    "apiextensions.k8s.io": "customresourcedefinitions",
    "apiregistration.k8s.io": "apiservices",
    "scheduling.sigs.k8s.io": "elasticquotatrees",
    "scheduling.x-k8s.io": "queues queueunits",
    "policy.one.alibabacloud.com": "propagationpolicies clusterpropagationpolicies overridepolicies "
    "clusteroverridepolicies",
    "work.karmada.io": "resourcebindings",
    "cluster.karmada.io": "clusters",
    "kubeflow.org": "pytorchjobs tfjobs mpijobs jaxjobs paddlejobs xgboostjobs",
    "batch": "jobs cronjobs",
    "batch.volcano.sh": "jobs",
    "apps": "deployments statefulsets controllerrevisions daemonsets replicasets",
    "autoscaling": "horizontalpodautoscalers",
    "networking.k8s.io": "ingresses ingressclasses ipaddresses networkpolicies servicecidrs",
    "policy": "poddisruptionbudgets",
    "storage.k8s.io": "csidrivers csinodes csistoragecapacities storageclasses volumeattachments "
    "volumeattributesclasses",
    "node.k8s.io": "runtimeclasses",
    "discovery.k8s.io": "endpointslices",
    "resource.k8s.io": "deviceclasses resourceclaims resourceclaimtemplates resourceslices",
    "flowcontrol.apiserver.k8s.io": "flowschemas prioritylevelconfigurations",
    "admissionregistration.k8s.io": "validatingwebhookconfigurations mutatingwebhookconfigurations "
    "validatingadmissionpolicies validatingadmissionpolicybindings "
    "mutatingadmissionpolicies mutatingadmissionpolicybindings",
    "config.fleet.io": "notificationreceivers workloadinterpreters",
    "topology.volcano.sh": "hypernodes",
}


def test_every_kind_of_the_design_is_there_and_no_other() -> None:
    found: dict[str, set[str]] = {}
    for kind in KINDS:
        found.setdefault(kind.group, set()).add(kind.resource)
    assert found == {group: set(resources.split()) for group, resources in EXPECTED.items()}


def test_short_names_belong_to_one_kind() -> None:
    claimed: dict[str, str] = {}
    for kind in KINDS:
        for name in kind.short_names:
            assert claimed.setdefault(name, kind.kind) == kind.kind, name
    assert {"qu", "qus", "rb", "mcl", "pp", "po", "no", "cm"} <= set(claimed)


def test_the_policies_are_served_under_karmadas_group_too() -> None:
    for resource in EXPECTED["policy.one.alibabacloud.com"].split():
        kind = KINDS.resource("policy.karmada.io", resource)
        assert kind is not None and kind.group == "policy.one.alibabacloud.com"


def test_schemas_are_whole_and_have_no_references_left() -> None:
    for kind in KINDS:
        assert kind.schema is not None and set(kind.schema["properties"]) >= {"apiVersion", "kind", "metadata"}
        text = orjson.dumps(collapse({**kind.schema, SCHEMA_FROM: None}))
        assert b"$ref" not in text and b"x-fleet-part" not in text and b"x-fleet-depth" not in text, kind.kind


def test_a_job_kinds_pod_template_is_the_real_one() -> None:
    schema: Any = KINDS.need("kubeflow.org", "pytorchjobs").schema
    replica = schema["properties"]["spec"]["properties"]["pytorchReplicaSpecs"]["additionalProperties"]
    template = replica["properties"]["template"]
    assert template[SCHEMA_FROM] == "io.k8s.api.core.v1.PodTemplateSpec"
    containers = template["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name" and containers["x-kubernetes-list-map-keys"] == ["name"]


def test_resolved_schemas_are_shared() -> None:
    pod: Any = KINDS.need("", "pods").schema
    template: Any = definitions().resolve("io.k8s.api.core.v1.PodTemplateSpec")
    assert pod["properties"]["spec"]["properties"]["volumes"] is template["properties"]["spec"]["properties"]["volumes"]


def test_a_quota_node_may_have_children_eight_levels_down() -> None:
    node: Any = KINDS.need("scheduling.sigs.k8s.io", "elasticquotatrees").schema
    node = node["properties"]["spec"]["properties"]["root"]
    levels = 0
    while "children" in node.get("properties", {}):
        node, levels = node["properties"]["children"]["items"], levels + 1
    assert levels == 8 and node["x-kubernetes-preserve-unknown-fields"]


def test_kinds_that_are_read_again_are_the_same() -> None:
    definitions.__wrapped__()
    kinds = kindfiles._parsed.__wrapped__(kindfiles.FOLDER, FOLDER)
    assert {k.group_resource for k in kinds} == {k.group_resource for k in KINDS}


def test_an_unknown_definition_is_an_error() -> None:
    with pytest.raises(LookupError, match="no definition"):
        definitions().resolve("io.k8s.api.core.v1.Nothing")


def test_expanding_leaves_what_was_given_alone() -> None:
    node = {"type": "object", "properties": {"t": {SCHEMA_FROM: "io.k8s.api.core.v1.Toleration", "description": "d"}}}
    before = deepcopy(node)
    expanded = definitions().expand(node)
    assert node == before and expanded["properties"]["t"]["description"] == "d"
    assert expanded["properties"]["t"]["properties"]["key"]["type"] == "string"
    assert collapse(expanded)["properties"]["t"][SCHEMA_FROM] == "io.k8s.api.core.v1.Toleration"
