"""The worlds of the pages about quota, policies, members and rights."""

from __future__ import annotations

from copy import deepcopy

from tests.docs.world import (
    GONE,
    TEAMS,
    TREE,
    Meanwhile,
    World,
    annotated,
    example,
    file_of,
    job,
    labelled,
    moved,
    namespace,
    shown_files,
    shown_object,
    sized,
    within,
)
from tests.e2e.manifests import Manifest, gang_policy, leaf, pytorchjob, quota_tree

GPU = "nvidia.com/gpu"


def with_limits_per_user() -> Manifest:
    tree = deepcopy(TREE)
    tree["spec"]["root"]["children"][0]["children"][0]["attributes"] = {
        "fleet.io/user-max": '{"nvidia.com/gpu": 8, "kube-queue/max-jobs": 2}',
        "fleet.io/user-max-by-name": '{"alice": {"nvidia.com/gpu": 16}, "ci": {}}',
    }
    return tree


def batch_job(name: str, pods: int) -> Manifest:
    container = {"name": "main", "image": "train"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": pods, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def of_sixteen(team: str, *numbers: int) -> tuple[Manifest, ...]:
    """Jobs of 16 GPUs."""
    return tuple(within(team, pytorchjob(f"{team}-{number}", workers=1, gpus=8)) for number in numbers)


QUOTA = World(
    objects=(*TEAMS, example("policy-gang.yaml")),
    files={
        **{f"{name}.yaml": file_of(pytorchjob(name, gpus=2)) for name in ("e", "f")},
        "third-of-production.yaml": file_of(*of_sixteen("production", 3)),
    },
    meanwhile=(
        Meanwhile(
            section="Limits per user",
            objects=(with_limits_per_user(),),
            shell="kubectl create rolebinding bob --clusterrole=edit --user=bob -n vision",
        ),
        Meanwhile(
            shell="kubectl apply --as bob -n vision -f e.yaml && fleet wait e -n vision --for started --timeout 150 && "
            "kubectl apply --as bob -n vision -f f.yaml"
        ),
        Meanwhile(
            section="Order of the jobs",
            shell=GONE,
            running=("a -n vision",),
            objects=(TREE, within("vision", pytorchjob("a", workers=1, gpus=8))),
        ),
        Meanwhile(objects=(within("vision", pytorchjob("b", workers=4, gpus=4)),)),
        Meanwhile("fleet jobs *", objects=(within("vision", pytorchjob("c", workers=1, gpus=8)),)),
        Meanwhile(section="Taking back", shell=GONE, objects=of_sixteen("vision", 1), running=("vision-1 -n vision",)),
        Meanwhile(objects=of_sixteen("vision", 2), running=("vision-2 -n vision",)),
        Meanwhile(objects=of_sixteen("language", 1, 2), running=("language-1 language-2 -n language",)),
        Meanwhile(objects=of_sixteen("production", 1, 2), running=("production-1 production-2 -n production",)),
        Meanwhile(
            section="Admission checks",
            shell=f"{GONE}; kubectl annotate clusters --all fleet.io/enable-reservation=true",
        ),
        Meanwhile("fleet explain *", objects=(within("vision", pytorchjob("d")),)),
    ),
    afterwards="kubectl annotate clusters --all fleet.io/enable-reservation-; "
    "kubectl delete rolebinding bob -n vision; kubectl delete clusterrole admission-checker",
)

TAINT = """kubectl patch cluster cfa --type merge -p \\
    '{"spec":{"taints":[{"key":"maintenance","effect":"NoExecute"}]}}'"""
OPEN = """kubectl patch cluster cfa --type merge -p '{"spec":{"taints":[]}}'
kubectl patch cluster cfb --type merge -p '{"spec":{"taints":[]}}'"""
TEST = pytorchjob("pytorch-test")
FIXED = labelled(job("fixed"), **{"quota.scheduling.alibabacloud.com/preemptible": "false"})
MOVES = World(
    objects=(
        namespace("team-f"),
        within("team-f", gang_policy(failover=moved(tolerationSeconds=1, backoffLimit=1))),
        within("team-f", pytorchjob("broken", run_for="1s", exit_code=1)),
    ),
    meanwhile=(
        Meanwhile(
            section="The state*",
            objects=(gang_policy(failover=moved({"example.com/started": "{.startTime}"})), TEST),
            running=("pytorch-test",),
        ),
        Meanwhile(shell="fleet move pytorch-test --to cfb"),
        Meanwhile(
            section="Notice*",
            shell=f"{GONE}; kubectl delete events --all",
            objects=(gang_policy(), annotated(TEST, **{"fleet.io/eviction-notice-seconds": "60"})),
            running=("pytorch-test",),
        ),
        Meanwhile(shell=TAINT),
        Meanwhile(
            section="Take a member*",
            shell=f"{GONE}\n{OPEN}",
            objects=(
                sized(quota_tree({**leaf("a", "default"), "min": {"nvidia.com/gpu": 8}}), 96),
                gang_policy(queue=True),
                pytorchjob("train", workers=1, gpus=8),
            ),
            running=("train",),
        ),
        Meanwhile(
            "fleet drain *",
            running=("fixed", "eval"),
            objects=(FIXED, annotated(job("eval"), **{"fleet.io/eviction-notice-seconds": "2"})),
        ),
        Meanwhile(
            section="Taints", shell=f"{GONE}; kubectl delete events --all", objects=(TEST,), running=("pytorch-test",)
        ),
        Meanwhile(section="Move one job", shell=f"{GONE}\n{OPEN}", objects=(pytorchjob("train"),), running=("train",)),
    ),
    afterwards=f"{OPEN}; fleet uncordon cfa cfb",
)


def teams(child: str) -> Manifest:
    """A tree whose third leaf has the namespace `child`."""
    return sized(
        quota_tree(
            leaf("vision", "team-a", **{GPU: 16}), leaf("speech", "speech", **{GPU: 16}), leaf("child-2", child)
        ),
        48,
    )


def faulty(config: Manifest) -> str:
    """The configuration without the prefix of its groups."""
    del config["jwt"][0]["claimMappings"]["groups"]["prefix"]
    return file_of(config)


ACCESS = World(
    shell="kubectl delete namespace team-a --ignore-not-found --timeout=150s",
    objects=(namespace("speech"), namespace("later"), teams("later")),
    files={
        "policy.yaml": file_of(example("policy-gang.yaml")),
        "faulty.yaml": faulty(shown_object("give-people-access.md", "AuthenticationConfiguration")),
    },
    meanwhile=(
        Meanwhile(
            section="The view of a team",
            running=("one two -n team-a", "four -n speech"),
            objects=(
                *(within(team, gang_policy(queue=True)) for team in ("team-a", "speech")),
                *(within("team-a", job(name)) for name in ("one", "two")),
                within("speech", pytorchjob("four", workers=1, gpus=8)),
            ),
        ),
        Meanwhile(objects=(within("team-a", pytorchjob("three", workers=1, gpus=8)), within("speech", job("five")))),
        Meanwhile(
            section="Past the queue",
            objects=(teams("default"),),
            shell="kubectl create rolebinding team-a-edit --clusterrole=edit --group=team-a -n default",
        ),
        # A policy from before the tree.
        Meanwhile("fleet doctor", objects=(teams("later"),)),
        Meanwhile(shell="kubectl apply --as carol --as-group team-a -f policy.yaml", objects=(teams("default"),)),
    ),
    afterwards="kubectl delete rolebinding team-a-edit -n default",
)
AUDIT = World(
    objects=(gang_policy(), TEST),
    files={
        "policy.yaml": file_of(
            {
                "apiVersion": "audit.k8s.io/v1",
                "kind": "Policy",
                "rules": [{"level": "None"}, {"level": "None"}, {"level": "metadata"}],
            }
        ),
        "job.yaml": file_of(TEST),
    },
    shell="ln -s $FLEET_DATA_DIR/../audit.log",
    meanwhile=(
        Meanwhile(section="Read it", shell="fleet cordon cfa && fleet uncordon cfa"),
        Meanwhile(
            shell="fleet token create ann -o kubeconfig > ann.kubeconfig; "
            "until kubectl --kubeconfig ann.kubeconfig auth whoami; do sleep 0.1; done; "
            "! kubectl --kubeconfig ann.kubeconfig apply --server-side --force-conflicts -f job.yaml"
        ),
    ),
)
RACKS = World(
    afterwards="kubectl annotate cluster cfb fleet.io/potential-nodes-; "
    "$CFA label node --all topology.kubernetes.io/rack- topology.kubernetes.io/block-;"
    "kubectl delete hypernodes --all; $CFB delete -f examples/placement/te-nodes.yaml;"
    """kubectl patch cluster cfa --type json -p '[{"op": "remove", "path": "/spec/topology"}]'""",
)
ROOM = World(
    objects=(quota_tree(leaf("a", "default")), gang_policy(queue=True)),
    shell="cp $FLEET_DATA_DIR/members/cfa.kubeconfig .",
    meanwhile=(Meanwhile(section="The way*", objects=(TEST,)),),
    afterwards="fleet join cfa --kubeconfig cfa.kubeconfig --no-enable-reservation",
)
PAGE = "webhooks-and-policies.md"
ADMISSION = World(
    files={
        **{
            f"{name}.yaml": file_of(*(shown_object(PAGE, f"{kind}AdmissionPolicy{end}") for end in ("", "Binding")))
            for name, kind in (("small-jobs", "Validating"), ("cost-centre", "Mutating"))
        },
        "wide.yaml": file_of(batch_job("wide", 9)),
        "job.yaml": file_of(batch_job("train", 1)),
    },
    afterwards="kubectl delete -f small-jobs.yaml -f cost-centre.yaml",
)
DECIDED = World(
    namespace="vision",
    objects=(
        namespace("vision"),
        gang_policy(queue=True),
        quota_tree(leaf("vision", "vision")),
        annotated(job("b"), **{"fleet.io/hold": "true"}),
        pytorchjob("d", workers=40),
    ),
    meanwhile=(
        # One by one: kubectl waits for one object that is not there yet, and gives up at once on two.
        Meanwhile(shell="for of in b d; do kubectl wait --for=create qu/$of-pytorchjob-rb-qu --timeout=60s; done"),
        Meanwhile(objects=(job("c"),), running=("c",)),
    ),
)


WORLDS = {
    "audit.md": AUDIT,
    "racks-and-growing-members.md": RACKS,
    "gangs-in-members.md": World(afterwards="kubectl annotate cluster cfa fleet.io/gang-scheduler-"),
    "hold-room-in-a-member.md": ROOM,
    "webhooks-and-policies.md": ADMISSION,
    "replay-a-decision.md": DECIDED,
    "replay-a-trace.md": World(files=shown_files("replay-a-trace.md")),
    "see-gpu-use.md": World(),
    "follow-a-job-through-the-hub.md": World(objects=(gang_policy(), job("train")), running=("train",)),
    "watch-a-fleet.md": World(),
    "give-people-access.md": ACCESS,
    "move-and-fail-over.md": MOVES,
    "write-a-quota-tree.md": QUOTA,
    "write-a-policy.md": World(),
}
