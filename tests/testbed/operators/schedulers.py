"""Other schedulers for a member, in the place of its kube-scheduler or beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from tests.testbed.member import RealMember
from tests.testbed.operators.build import Body, built, objects
from tests.testbed.operators.controllers import HOOK_KINDS, Place, add_hooks
from tests.testbed.processes import free_port

LEFT_BEHIND = "5s"  # instead of 5 min: a gang that gets room in the middle of an attempt may leave one pod behind
# The kinds of Kueue that its webhook converts. Kueue writes its authority into them, and waits for the place for it.
KUEUE_CONVERTED = ("localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters")
# What a kubelet does and kwok does not: a pod ends before it goes. Kueue counts the pods of a group that have ended.
ENDS_BEFORE_IT_GOES = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "pod-ends-before-it-goes"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {
            "matchExpressions": [
                {"key": ".metadata.deletionTimestamp", "operator": "Exists"},
                {"key": ".status.phase", "operator": "In", "values": ["Pending", "Running"]},
            ]
        },
        "weight": 1,  # of the stages that match, this one
        "next": {"statusTemplate": "phase: Failed\n"},
    },
}


def start_koordinator(member: RealMember) -> None:
    """Koordinator's scheduler as the only one, under the default name: a kube-scheduler beside it would not see the
    room that Reservations hold. Neither its manager nor its agents run; nodes need no object of theirs."""
    bodies = objects("koordinator")
    member.add_namespace("koordinator-system")
    member.add_kinds(_definitions(bodies))
    config = yaml.safe_load(_one(bodies, "ConfigMap")["data"]["koord-scheduler-config"])
    path = member.folder / "koordinator.json"
    path.write_text(json.dumps(_koordinator(config, str(member.kubeconfig))))
    port = free_port()
    member.run(
        "scheduler",
        [
            built("koordinator").binary("koord-scheduler"),
            f"--config={path}",
            "--address=127.0.0.1",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            "--authentication-skip-lookup=true",
            f"--pod-max-in-unschedulable-pods-duration={LEFT_BEHIND}",
        ],
        ready=f"http://127.0.0.1:{port}/healthz",
    )


def start_coscheduling(member: RealMember) -> None:
    """kube-scheduler with the plugin Coscheduling of scheduler-plugins, in the place of the member's own and under the
    default name. Its controller, which writes the status of PodGroups, does not run."""
    bodies = objects("coscheduling")
    member.add_kinds(_definitions(bodies))
    config = _one(bodies, "KubeSchedulerConfiguration")
    config["clientConnection"] = {"kubeconfig": str(member.kubeconfig), "qps": 1000, "burst": 2000}
    path, port = member.folder / "coscheduling.json", free_port()
    path.write_text(json.dumps(config))
    member.run(
        "scheduler",
        [
            built("coscheduling").binary("scheduler"),
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--authentication-skip-lookup=true",
            f"--pod-max-in-unschedulable-pods-duration={LEFT_BEHIND}",
        ],
        ready=f"https://127.0.0.1:{port}/readyz",
    )


def start_volcano(member: RealMember) -> None:
    """Volcano's scheduler under its own name beside the member's kube-scheduler, with its built-in settings; and its
    controllers, without which no queue is open. Its webhooks do not run."""
    member.start_scheduler()
    member.add_kinds(_definitions(objects("volcano")))
    member.add_namespace("volcano-system")
    for part in ("scheduler", "controller-manager"):
        port = free_port()
        member.run(
            f"volcano-{part}",
            [
                built("volcano").binary(part),
                f"--kubeconfig={member.kubeconfig}",
                "--leader-elect=false",
                "--enable-healthz=true",
                f"--healthz-address=127.0.0.1:{port}",
            ],
            ready=f"http://127.0.0.1:{port}/healthz",
        )


def start_kueue(member: RealMember) -> None:
    """Kueue before the member's kube-scheduler: its webhooks gate the pods of a queue, and Kueue takes the gates off a
    group that its queue has quota for. The shipped settings are used, without the API server for pending workloads."""
    member.start_scheduler()
    place = Place(member, "kueue", free_port(), free_port())
    bodies = objects("kueue")
    definitions = _definitions(bodies)
    for definition in definitions:
        if definition["spec"]["names"]["plural"] in KUEUE_CONVERTED:
            hook = {"clientConfig": {"url": place.hook("/convert")}, "conversionReviewVersions": ["v1"]}
            definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
    member.add_kinds(definitions)
    member.add_namespace("kueue-system")
    member.add_certificates("kueue-system", "kueue-webhook-server-cert", member.folder)
    settings = _one(bodies, "Configuration") | {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{place.health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": place.webhook, "certDir": str(place.certificates)},
        "leaderElection": {"leaderElect": False},
        "featureGates": {"VisibilityOnDemand": False},
    }
    for body in bodies:
        if body["kind"] in HOOK_KINDS:
            add_hooks(place, body)
    stage = member.folder / "pod-ends-before-it-goes.json"
    stage.write_text(json.dumps(ENDS_BEFORE_IT_GOES))
    member.stages.append(stage)
    place.run(
        "kueue",
        [f"--kubeconfig={member.kubeconfig}", f"--config={place.file(settings)}"],
        ready=f"http://127.0.0.1:{place.health}/readyz",
    )


def _definitions(bodies: Sequence[Body]) -> list[Body]:
    return [body for body in bodies if body["kind"] == "CustomResourceDefinition"]


def _one(bodies: Sequence[Body], kind: str) -> Body:
    (found,) = (body for body in bodies if body["kind"] == kind)
    return found


def _koordinator(config: dict[str, Any], kubeconfig: str) -> dict[str, Any]:
    """The shipped configuration for one scheduler outside a pod. It leaves the plugin Reservation out of the reserve
    step, and without it a Reservation becomes Available, but no pod can ever take its room."""
    (profile,) = config["profiles"]
    profile["schedulerName"] = "default-scheduler"
    reserve = profile["plugins"]["reserve"]["enabled"]
    if {"name": "Reservation"} not in reserve:
        reserve.append({"name": "Reservation"})
    config["leaderElection"] = {"leaderElect": False}
    config["clientConnection"] = {"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000}
    return config
