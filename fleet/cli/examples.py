"""An example or two of every command: the end of its --help, and of its part in docs/reference/cli.md."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": ("fleet up --members 2", "fleet up --data-dir /srv/fleet --listen 0.0.0.0:6440"),
    "demo": ("fleet demo",),
    "join": (
        "fleet join east --kubeconfig east.kubeconfig --label pool=h100 --region eu",
        "fleet join west --kubeconfig west.kubeconfig --enable-reservation",
        "fleet join edge --kubeconfig edge.kubeconfig --agent --hub-url https://hub.example.org:6440 > edge.yaml",
    ),
    "unjoin": ("fleet unjoin east",),
    "cordon": ("fleet cordon east", "fleet cordon east west"),
    "uncordon": ("fleet uncordon east",),
    "drain": (
        "fleet drain east --dry-run",
        "fleet drain east --per-minute 10",
        "fleet drain east west --force -o json",
    ),
    "move": ("fleet move train --to east", "fleet move pytorchjob/train --to east -n team-a --dry-run"),
    "status": ("fleet status", "fleet status -o json"),
    "clusters": ("fleet clusters", "fleet clusters -o wide"),
    "queues": ("fleet queues",),
    "submit": ("fleet submit job.yaml", "kubectl get pytorchjob train -o yaml | sed s/train/again/ | fleet submit -"),
    "delete": ("fleet delete pytorchjob/train pytorchjob/eval -n team-a",),
    "clone": (
        "fleet clone train --set spec.pytorchReplicaSpecs.Worker.replicas=4",
        "fleet clone train train-2 --dry-run | fleet submit -",
    ),
    "jobs": (
        "fleet jobs -A --sort age",
        "fleet jobs --mine --state queued --state running -w",
        "fleet jobs -l sweep=lr --since 2d -o name",
        "fleet jobs -n team-a -o json",
    ),
    "wait": ("fleet wait train", "fleet wait -l sweep=lr --for started --timeout 600"),
    "hold": ("fleet hold train", "fleet hold -l sweep=lr -n team-a"),
    "release": ("fleet release train",),
    "suspend": ("fleet suspend train eval",),
    "resume": ("fleet resume train eval",),
    "cancel": ("fleet cancel train", "fleet cancel -l sweep=lr"),
    "priority": ("fleet priority 100 train",),
    "explain": ("fleet explain train", "fleet explain pytorchjob/train -n team-a -o json"),
    "logs": ("fleet logs train -f", "fleet logs pytorchjob/train --role worker --index 3 --tail 100 -n team-a"),
    "doctor": ("fleet doctor", "fleet doctor -o json"),
    "backup": ("fleet backup hub.backup", "fleet backup - --passphrase-file phrase | ssh store 'cat > hub.backup'"),
    "restore": ("fleet restore hub.backup", "fleet restore hub.backup --passphrase-file phrase --data-dir /srv/fleet"),
    "orphans list": ("fleet orphans list", "fleet orphans list -o json"),
    "orphans adopt": ("fleet orphans adopt pytorchjob/train -n team-a", "fleet orphans adopt --all --member east"),
    "orphans remove": ("fleet orphans remove pytorchjob/train -n team-a", "fleet orphans remove --all --member east"),
    "decide": ("fleet decide snapshot.json", "fleet decide snapshot.json --explain team-a/train"),
    "what-if": ("fleet what-if --submit job.yaml -n team-a", "fleet what-if --drain east --scale west=+4"),
    "replay": ("fleet replay jobs.csv --nodes nodes.csv --policy fleet --policy fifo",),
    "token create": ("fleet token create alice --group team-a -n team-a -o kubeconfig > alice.kubeconfig",),
    "token list": ("fleet token list",),
    "token revoke": ("fleet token revoke alice",),
    "agent": ("fleet agent edge --hub https://hub.example.org:6440 --token-file token --ca-file ca.crt",),
    "api": ("fleet api --listen 0.0.0.0:6440 --database-url postgresql://fleet@db/fleet",),
    "controllers": ("fleet controllers --database-url postgresql://fleet@db/fleet",),
    "sim": ("fleet sim",),
    "version": ("fleet version",),
}


def of(command: str) -> str:
    """The end of a command's help."""
    lines = EXAMPLES[command]
    return "\b\n" + "\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])
