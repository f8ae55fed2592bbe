"""An example or two of every command: the end of its --help, and of its part in docs/reference/cli.md."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": ("fleet up --members 2", "fleet up --data-dir /srv/fleet --listen 0.0.0.0:6440"),
    "demo": ("fleet demo", "fleet demo --keep"),
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
    "status": ("fleet status", "fleet status -w", "fleet status -o json"),
    "clusters": ("fleet clusters -o wide", "fleet clusters --state ready --sort free"),
    "queues": ("fleet queues -o wide", "fleet queues --queue root/vision -w"),
    "run": (
        "fleet run --gpus 8 --workers 4 --image train:1 --time 12h -- torchrun train.py --lr 0.1",
        "fleet run --gpus 1 --image train:1 --mount data:/data --env LR=0.1 --code -f -- python train.py",
        "fleet run --template pytorch --gpus 8 --name again --dry-run",
        "fleet run --gpus 1 --image train:1 --sweep lr=0.1,0.01 --at-most 4 -- python train.py --lr {lr}",
        "fleet run --notebook --gpus 1 --image quay.io/jupyter/pytorch-notebook --idle 30m",
    ),
    "submit": (
        "fleet submit job.yaml",
        "fleet submit train.yaml --after prepare --replace",
        "fleet submit train.yaml --sweep lr=0.1,0.01 --sweep seed=1..5 --at-most 4 --until 'loss<0.1'",
        "kubectl get pytorchjob train -o yaml | sed s/train/again/ | fleet submit -",
    ),
    "check": ("fleet check train.yaml", "fleet check jobs/ -n team-a -o json"),
    "sweep": ("fleet sweep", "fleet sweep train --lowest loss", "fleet sweep train --until 'accuracy>=0.9' -n team-a"),
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
    "hold": ("fleet hold train", "fleet hold -l sweep=lr -n team-a", "fleet hold queue/root/vision --drain"),
    "release": ("fleet release train", "fleet release queue/root/vision"),
    "suspend": ("fleet suspend train eval",),
    "resume": ("fleet resume train eval",),
    "cancel": ("fleet cancel train", "fleet cancel -l sweep=lr"),
    "priority": ("fleet priority 100 train",),
    "explain": ("fleet explain train", "fleet explain pytorchjob/train -n team-a -o json"),
    "notifications": ("fleet notifications --failed -A", "fleet notifications --receiver chat -n team-a -o wide"),
    "notifications retry": ("fleet notifications retry --receiver chat -n team-a",),
    "history": ("fleet history --since 7d --user alice", "fleet history -A --state failed --since 2026-11 -o wide"),
    "history forget": ("fleet history forget --user alice",),
    "show": ("fleet show train", "fleet show pytorchjob/train -n team-a -o json"),
    "report": (
        "fleet report usage --by user --from 2026-11",
        "fleet report usage --by member --from 7d -o png --file usage.png",
        "fleet report waits --by queue --from yesterday",
        "fleet report efficiency --by user --from 2026-10 --to 2026-11 -o csv",
    ),
    "logs": (
        "fleet logs train -f",
        "fleet logs pytorchjob/train --role worker --index 3 --tail 100 -n team-a",
        "fleet logs --hub --job train -f",
    ),
    "exec": ("fleet exec train -i -t -- bash", "fleet exec train --rank 3 -- nvidia-smi"),
    "attach": ("fleet attach train -i -t",),
    "port-forward": ("fleet port-forward train 8888:8888", "fleet port-forward train :6006 --pod train-worker-0"),
    "top": ("fleet top --by model", "fleet top", "fleet top train -w", "fleet top --idle --below 10%"),
    "doctor": ("fleet doctor", "fleet doctor --member east", "fleet doctor -o json"),
    "backup": ("fleet backup hub.backup", "fleet backup - --passphrase-file phrase | ssh store 'cat > hub.backup'"),
    "restore": ("fleet restore hub.backup", "fleet restore hub.backup --passphrase-file phrase --data-dir /srv/fleet"),
    "orphans list": ("fleet orphans list", "fleet orphans list --member east --since 2d -o json"),
    "orphans adopt": ("fleet orphans adopt pytorchjob/train -n team-a", "fleet orphans adopt --all --member east"),
    "orphans remove": ("fleet orphans remove pytorchjob/train -n team-a", "fleet orphans remove --all --member east"),
    "decide": ("fleet decide snapshot.json", "fleet decide snapshot.json --explain team-a/train"),
    "what-if": ("fleet what-if --submit job.yaml -n team-a", "fleet what-if --drain east --scale west=+4"),
    "replay": ("fleet replay jobs.csv --nodes nodes.csv --policy fleet --policy fifo",),
    "token create": ("fleet token create alice --group team-a -n team-a -o kubeconfig > alice.kubeconfig",),
    "token list": ("fleet token list", "fleet token list --state over --sort expires"),
    "token revoke": ("fleet token revoke alice",),
    "agent": ("fleet agent edge --hub https://hub.example.org:6440 --token-file token --ca-file ca.crt",),
    "api": ("fleet api --listen 0.0.0.0:6440 --database-url postgresql://fleet@db/fleet",),
    "controllers": ("fleet controllers --database-url postgresql://fleet@db/fleet",),
    "sim": ("fleet sim",),
    "help": ("fleet help", "fleet help fair share", "fleet help QuotaExhausted"),
    "completion": ("source <(fleet completion bash)", "fleet completion fish | source"),
    "version": ("fleet version", "fleet --version"),
}


def of(command: str) -> str:
    """The end of a command's help."""
    lines = EXAMPLES[command]
    return "\b\n" + "\n".join(["Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)])
