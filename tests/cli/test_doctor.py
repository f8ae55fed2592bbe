"""`fleet doctor`: what it finds on a hub, and how it ends."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlparse

import pytest

from fleet.amc.client import ServerAnswer
from fleet.bindings.finding import Finding
from fleet.cli.doctor import HUB_CONFIG, POLICIES, TREES, passing_policies
from fleet.cli.hub import HubClient
from fleet.cli.patient import PARTS, PatientHub
from fleet.rest.hubmodels import HubParts
from fleet.values.ports import Body
from tests.cli.hub import Up, fleet
from tests.controllers.world import cluster_policy, passing, policy, tree


class Stored:
    """A hub's API that holds these objects and nothing else."""

    def __init__(self, *policies: Body, tree: Body | None = None, required: str = "false") -> None:
        wide = [p for p in policies if "namespace" not in p["metadata"]]
        self.lists = {
            f"{POLICIES}/propagationpolicies": [p for p in policies if p not in wide],
            f"{POLICIES}/clusterpropagationpolicies": wide,
            TREES: [tree] if tree else [],
        }
        self.config = {"data": {"requireQueue": required}}

    def request(self, method: str, path: str, *_: Any, **__: Any) -> ServerAnswer:
        at = urlparse(path).path
        body = self.config if at == HUB_CONFIG else {"items": self.lists[at]}
        return ServerAnswer(200, body)


def found(*policies: Body, **how: Any) -> list[Finding]:
    return list(passing_policies(PatientHub(HubClient(Stored(*policies, **how), "kubeconfig"), lambda: 0.0)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(policy(), 'the verb "bypass" on the queue of root/child-2', id="nobody with the right wrote it"),
        pytest.param(passing(policy(), "root/x"), "on the queue of root/child-2", id="a right on another queue"),
        pytest.param(cluster_policy(), "on the queue of root/child-2", id="cluster-wide"),
        pytest.param(policy(queue=True), "", id="it queues"),
        pytest.param(passing(policy()), "", id="somebody with the right wrote it"),
        pytest.param(policy(namespace="team-b"), "", id="a namespace without a leaf"),
    ],
)
def test_policies_that_would_pass_a_queue_are_found(body: Body, why: str) -> None:
    findings = found(body, tree=tree())
    assert [why in finding.why for finding in findings] == ([True] if why else [])


def test_a_finding_says_what_to_do() -> None:
    (finding,) = found(policy(), tree=tree())
    assert finding == Finding(
        "passes-a-queue",
        "PropagationPolicy",
        "default",
        "example-policy",
        "does not suspend PyTorchJob, whose objects wait in their queue all the same: nobody with the verb"
        ' "bypass" on the queue of root/child-2 has written it',
        "set spec.suspension.scheduling: true, or, with that verb, write it: kubectl label"
        " propagationpolicy.policy.one.alibabacloud.com/example-policy -n default passes-queue=yes",
    )


def test_where_the_queue_is_required_a_right_is_no_excuse() -> None:
    (finding,) = found(passing(policy()), tree=tree(), required="true")
    assert 'requireQueue: "true" in ConfigMap fleet-system/hub' in finding.why
    assert finding.what_to_do == "set spec.suspension.scheduling: true"


def test_without_a_tree_nothing_is_passed() -> None:
    assert found(policy(), required="true") == []


def test_it_ends_with_1_only_when_it_found_something(up: Up) -> None:
    sound = fleet("doctor", "--data-dir", str(up.folder))
    assert (sound.returncode, sound.stdout, sound.stderr) == (0, "", "Nothing is wrong\n")
    hub = up.hub
    HubParts.model_validate(hub.request("GET", PARTS).body)
    hub.put_object(f"{POLICIES}/namespaces/default/propagationpolicies", policy("sound", queue=True))
    hub.put_object(TREES, tree())
    hub.put_object(f"{POLICIES}/namespaces/default/propagationpolicies", policy("mine"))
    done = fleet("doctor", "-o", "json", "--data-dir", str(up.folder))
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    required = {"metadata": {"name": "hub"}, "data": {"requireQueue": "true"}}
    hub.put_object("/api/v1/namespaces/fleet-system/configmaps", required)
    done = fleet("doctor", "-o", "json", "--data-dir", str(up.folder))
    assert (done.returncode, [line["name"] for line in json.loads(done.stdout)]) == (1, ["mine"])
    done = fleet("doctor", "--data-dir", str(up.folder))
    assert done.stdout.splitlines()[0] == "PropagationPolicy default/mine  (passes-a-queue)"
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["Why:", "Do:"]
