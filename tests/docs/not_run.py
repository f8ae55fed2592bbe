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
    "../tutorial.md": {"make up": STARTS},
    "../../CONTRIBUTING.md": dict.fromkeys(
        ("make setup", "make lint", "make test", "make slow"), "all of it: .ci/run, and make slow before a release"
    ),
    "../reference/kubectl-amc.md": {"kubectl amc get events *": "a member with fewer rights: tests/amc"},
    "logs-and-shells.md": dict.fromkeys(
        ("fleet exec *", "fleet attach *", "fleet port-forward *", "kubectl exec *", "kubectl port-forward *"), KEYS
    ),
    "run-a-job.md": {"fleet run * --name eval *": "a job that ends by itself: tests/cli/test_run.py"},
    "submit-check-and-sweep.md": {"fleet sweep *": "jobs that print a number: tests/cli/test_submitting.py"},
    "keep-a-history.md": dict.fromkeys(("export *", "fleet up*"), STARTS),
    "give-people-access.md": dict.fromkeys(
        ("fleet up --authentication-config authentication.yaml", "fleet up --oidc-issuer-url *"), STARTS
    ),
    "replay-a-trace.md": {
        "fleet replay $TRACES/*": "traces that Fleet does not bring: tests/simulate/test_replay.py",
        "fleet history -A --since 30d *": "jq, which is of the reader's machine",
    },
    "racks-and-growing-members.md": dict.fromkeys(("fleet up *", "export KUBECONFIG=*"), STARTS),
    "audit.md": dict.fromkeys(("Write it to a file: fleet up *", "Send it to a server: fleet up *"), STARTS),
    "webhooks-and-policies.md": {"fleet up *": STARTS},
    "follow-a-job-through-the-hub.md": {"fleet up *": STARTS},
    "watch-a-fleet.md": {"fleet controllers *": STARTS, "python -m fleet.monitoring *": MACHINE},
    "join-a-member-behind-a-firewall.md": {
        "fleet agent *": "runs until Ctrl-C: tests/e2e/test_agent.py, tests/cli/test_agent.py",
    },
    "upgrade.md": {
        "fleet api": "the data of a newer release: tests/cli/test_upgrade.py",
        "fleet doctor": "a hub in which nothing is wrong: tests/cli/test_doctor_hub.py",
    },
    "move-and-fail-over.md": {"A member does not answer: *": SILENT},
    "incidents.md": {"fleet doctor": SILENT},
    "run-in-production.md": {
        **dict.fromkeys(("export FLEET_DATA*", "fleet api*", "fleet controllers*"), STARTS),
        **dict.fromkeys(
            (
                "export FLEET_DB_PASSWORD*",
                "docker *",
                "kubectl --kubeconfig ./*",
                "useradd *",
                "git *",
                "install *",
                "systemctl *",
            ),
            MACHINE,
        ),
        **dict.fromkeys(
            ("fleet backup *", "fleet restore *", "fleet doctor", "fleet jobs", "fleet orphans *"), BACKUPS
        ),
        **dict.fromkeys(("kubectl get --raw /fleet/v1/faults/17*", "fleet decide fault.json"), FAULT),
        "fleet token create ann *": "an authority of somebody else: tests/cli/test_own_certificate.py",
        "curl *": "a hub with an address for metrics: tests/cli/test_metrics.py",
    },
}

# Run, but what they print is of a longer past than a test has, or in the order of names that the hub makes.
BY_CHANCE = {
    "fleet show train-4",
    "fleet report usage --by member",
    "fleet status",
    "fleet notifications --failed -n vision",
    "kubectl get queue -n kube-queue",
}

# Pages that are made by running their commands, one that only starts a hub, and one of a checkout.
ANOTHER_RUN = {
    "what-if.md": "tests/docs/test_docs.py",
    "../reference/snapshot.md": "tests/docs/test_docs.py",
    "use-the-console.md": "tests/console",
    "install.md": "tests/packaging/test_distribution.py",
    "../../CONTRIBUTING.md": "tests/project/test_contributing.py",
}
