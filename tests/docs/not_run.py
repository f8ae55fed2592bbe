"""What of the pages `test_pages_run.py` does not run, each with its reason."""

from __future__ import annotations

KEYS = "waits for keys or runs until Ctrl-C: tests/cli/test_shells.py"
STARTS = "starts another process of a hub: tests/cli/test_up.py"
MACHINE = "changes the machine (systemd, a container engine)"
BACKUPS = "a hub that went back in time: tests/cli/test_backup.py, tests/cli/test_restored_hub.py"
SILENT = "a member that does not answer: tests/cli/test_doctor_hub.py, tests/cli/test_status.py"
FAULT = "needs a decider that fails: tests/controllers"

# By page: patterns of commands, or of SECTION: COMMAND.
NOT_RUN: dict[str, dict[str, str]] = {
    "../../README.md": dict.fromkeys(
        ("make *", "export *", "fleet up *", "Every day: *"), "starts a hub, or names no job: tests/cli/test_up.py"
    ),
    "../tutorial.md": {"make up": STARTS},
    "../reference/kubectl-amc.md": {"kubectl amc get events *": "a member with fewer rights: tests/amc"},
    "logs-and-shells.md": dict.fromkeys(
        ("fleet exec *", "fleet attach *", "fleet port-forward *", "kubectl exec *", "kubectl port-forward *"), KEYS
    ),
    "run-a-job.md": {"fleet run * --name eval *": "a job that ends by itself: tests/cli/test_run.py"},
    "submit-check-and-sweep.md": {"fleet sweep *": "jobs that print a number: tests/cli/test_submitting.py"},
    "keep-a-history.md": dict.fromkeys(("export *", "fleet up*"), STARTS),
    "incidents.md": {"fleet doctor": SILENT},
    "run-in-production.md": {
        **dict.fromkeys(("export FLEET_DATA*", "fleet api*", "fleet controllers*"), STARTS),
        **dict.fromkeys(
            ("export FLEET_DB_PASSWORD*", "docker *", "kubectl --kubeconfig ./*", "useradd *", "git *", "install *",
             "systemctl *"),
            MACHINE,
        ),
        **dict.fromkeys(
            ("fleet backup *", "fleet restore *", "fleet doctor", "fleet jobs", "fleet orphans *"), BACKUPS
        ),
        **dict.fromkeys(("kubectl get --raw /fleet/v1/faults/17*", "fleet decide fault.json"), FAULT),
        "curl *": "a hub with an address for metrics: tests/cli/test_metrics.py",
    },
}  # fmt: skip

# Run, but what they print is of a longer past than a test has, or in the order of names that the hub makes.
BY_CHANCE = {
    "fleet show train-4", "fleet report usage --by member", "fleet status", "fleet notifications --failed -n vision",
    "kubectl get queue -n kube-queue",
}  # fmt: skip

# Pages whose commands no test runs as the page shows them, or another; the subject of each has tests of its own.
ANOTHER_RUN = {
    "what-if.md": "tests/docs/test_docs.py",
    "../reference/snapshot.md": "tests/docs/test_docs.py",
    "use-the-console.md": "tests/console",
    "join-a-member-behind-a-firewall.md": "tests/cli/test_agent.py",
    "join-a-real-cluster.md": "tests/cli/test_join.py",
    "audit.md": "tests/cli/test_audit.py",
    "follow-a-job-through-the-hub.md": "tests/traces",
    "gangs-in-members.md": "tests/controllers",
    "give-people-access.md": "tests/cli/test_tenant.py",
    "hold-room-in-a-member.md": "tests/controllers",
    "move-and-fail-over.md": "tests/cli/test_move.py",
    "racks-and-growing-members.md": "tests/placement",
    "replay-a-decision.md": "tests/cli/test_decide.py",
    "replay-a-trace.md": "tests/cli/test_replay.py",
    "see-gpu-use.md": "tests/relays/test_gpus.py",
    "watch-a-fleet.md": "tests/monitoring",
    "webhooks-and-policies.md": "tests/api/test_admission_policies.py",
    "write-a-policy.md": "tests/controllers",
    "write-a-quota-tree.md": "tests/quota",
}
