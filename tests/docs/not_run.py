"""What of the guides `test_pages_run.py` does not run, each with its reason."""

from __future__ import annotations

KEYS = "waits for keys or runs until Ctrl-C: tests/cli/test_shells.py"
STARTS = "starts another process of a hub: tests/cli/test_up.py"
MACHINE = "changes the machine (systemd, a container engine)"
BACKUPS = "a hub that went back in time: tests/cli/test_backup.py, tests/cli/test_restored_hub.py"
FAULT = "needs a decider that fails: tests/controllers"

# By page: patterns of commands.
NOT_RUN: dict[str, dict[str, str]] = {
    "logs-and-shells.md": dict.fromkeys(
        ("fleet exec *", "fleet attach *", "fleet port-forward *", "kubectl exec *", "kubectl port-forward *"), KEYS
    ),
    "find-out-why-a-job-waits.md": {
        "fleet explain *": "jobs too large, or that fail: tests/cli/test_explain.py",
        "kubectl get queue *": "a name that the hub makes: tests/controllers",
    },
    "run-a-job.md": {"fleet run * --name eval *": "a job that ends by itself: tests/cli/test_run.py"},
    "submit-check-and-sweep.md": {"fleet sweep *": "jobs that print a number: tests/cli/test_submitting.py"},
    "keep-a-history.md": dict.fromkeys(("export *", "fleet up*"), STARTS),
    "incidents.md": {
        "fleet doctor": "a member that does not answer: tests/cli/test_doctor_hub.py",
        "curl *": "the address of the reader's hub",
    },
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
        "fleet token create ops *": "the address of the reader's hub: tests/cli/test_token.py",
        "kubectl --kubeconfig ops.kubeconfig *": "the address of the reader's hub: tests/cli/test_token.py",
        "curl *": "the address of the reader's hub: tests/cli/test_metrics.py",
    },
}  # fmt: skip

# Run, but what they print is of a longer past than a test has.
BY_CHANCE = {
    "fleet show train-4", "fleet report usage --by member", "fleet status", "fleet notifications --failed -n vision",
}  # fmt: skip

# Pages whose commands no test runs as the page shows them; the subject of each has tests of its own.
ANOTHER_RUN = {
    "what-if.md": "tests/docs/test_docs.py",
    "audit.md": "tests/cli/test_audit.py",
    "follow-a-job-through-the-hub.md": "tests/traces",
    "gangs-in-members.md": "tests/controllers",
    "give-people-access.md": "tests/cli/test_tenant.py",
    "hold-hurry-or-stop-a-job.md": "tests/cli/test_verbs.py",
    "hold-room-in-a-member.md": "tests/controllers",
    "join-a-member-behind-a-firewall.md": "tests/cli/test_agent.py",
    "join-a-real-cluster.md": "tests/cli/test_join.py",
    "move-and-fail-over.md": "tests/cli/test_move.py",
    "racks-and-growing-members.md": "tests/placement",
    "replay-a-decision.md": "tests/cli/test_decide.py",
    "replay-a-trace.md": "tests/cli/test_replay.py",
    "see-gpu-use.md": "tests/relays/test_gpus.py",
    "use-the-console.md": "tests/console",
    "watch-a-fleet.md": "tests/monitoring",
    "webhooks-and-policies.md": "tests/api/test_admission_policies.py",
    "write-a-policy.md": "tests/controllers",
    "write-a-quota-tree.md": "tests/quota",
}
