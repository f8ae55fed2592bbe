"""The worlds of the pages about single jobs."""

from __future__ import annotations

import re

from tests.docs.world import (
    GONE,
    TEAMS,
    TREE,
    WALKTHROUGH,
    Meanwhile,
    World,
    file_of,
    labelled,
    shown_object,
)
from tests.e2e.manifests import gang_policy, pytorchjob

SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
HELD = "hold-hurry-or-stop-a-job.md"
HOLD = World(
    namespace="vision",
    objects=(*TEAMS, TREE, labelled(pytorchjob("one", workers=1, gpus=8), sweep="lr")),
    running=("one",),
    files={
        "stretch.yaml": file_of(shown_object(HELD, "PyTorchJob")),
        "done.yaml": file_of(pytorchjob("done", workers=0, run_for="1s")),
    },
    meanwhile=(
        Meanwhile(objects=(labelled(pytorchjob("two", gpus=8), sweep="lr"),)),
        Meanwhile("fleet hold *", shell="kubectl wait --for=create qu/two-pytorchjob-rb-qu --timeout=60s"),
        Meanwhile(
            "kubectl annotate * held *", shell=GONE, objects=(pytorchjob("a", workers=1, gpus=8),), running=("a",)
        ),
        Meanwhile(objects=(pytorchjob("b", workers=4, gpus=4), pytorchjob("c", gpus=8), pytorchjob("held", gpus=8))),
        Meanwhile(section="Change the size*", shell=GONE, objects=(pytorchjob("other", gpus=8),), running=("other",)),
        Meanwhile(objects=(pytorchjob("train"),), running=("train",)),
        Meanwhile(
            section="By the state*",
            shell=f"{GONE}; kubectl apply --server-side -f done.yaml",
            objects=(pytorchjob("c", gpus=8),),
            running=("c",),
            finished=("done",),
        ),
        Meanwhile(objects=(pytorchjob("b", workers=4, gpus=4),)),
    ),
)


def endless() -> dict[str, str]:
    """The jobs of the walk-through, which here end when the world says so."""
    names = [f"{name}.yaml" for name in ("pytorchjob", "pytorchjob-second", "batch-job")]
    texts = {name: (WALKTHROUGH / name).read_text() for name in names}
    return {f"examples/walkthrough/{name}": re.sub("testbed/run-for: .*", "{}", text) for name, text in texts.items()}


IN_CFA = "kubectl --server $(kubectl config view -o jsonpath='{.clusters[0].cluster.server}')"
IN_CFA += "/apis/cluster.karmada.io/v1alpha1/clusters/cfa/proxy"
TUTORIAL = World(
    files=endless(),
    meanwhile=(
        Meanwhile(
            "kubectl wait pytorchjob/pytorch-test *",
            shell=f"{IN_CFA} annotate pods testbed/run-for=0s -l training.kubeflow.org/job-name=pytorch-test",
        ),
        Meanwhile(
            "kubectl wait job/batch-test *",
            shell=f"until {IN_CFA} annotate pods testbed/run-for=0s "
            "-l batch.kubernetes.io/job-name=batch-test | grep annotated; do sleep 0.2; done",
        ),
    ),
)
AMC = World(
    objects=(gang_policy(), pytorchjob("pytorch-test")),
    running=("pytorch-test",),
    files={"settings.yaml": file_of(SETTINGS)},
    shell="kubectl amc apply -f settings.yaml -m cfa",
    afterwards="kubectl amc delete configmap settings -m cfb",
)

WORLDS = {
    "../tutorial.md": TUTORIAL,
    "../reference/kubectl-amc.md": AMC,
    HELD: HOLD,
}
