"""What a flood of one user does to another user: latencies of the other, without the flood and with it.

    python -m tests.bench.run fairness

The flood is 200 connections of one service account, each of which asks again as soon as it has its answer. The other
account has one connection. Each has a load program of its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.bench.api import body
from tests.bench.loader import NUMBER, Loader, Request, Task
from tests.bench.report import Figure, Report
from tests.bench.servers import ACCOUNT, CONFIGMAPS, NAMESPACE, RBAC, TOKEN_S, Server, asked, started_hub

CONNECTIONS = 200
OBJECTS = 2000
SECONDS = 3.0
WARM_S = 1.0
OTHER = "other"


def requests(user: str, limit: int) -> dict[str, Request]:
    return {
        "get": Request("GET", f"{CONFIGMAPS}/kept-0000000007"),
        "create": Request("POST", CONFIGMAPS, body(f"{user}-{NUMBER}")),
        "list": Request("GET", f"{CONFIGMAPS}?limit={limit}"),
    }


def other_user(server: Server) -> Server:
    """The server as another service account with the same rights sees it."""
    with server.client() as client:
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        asked(client.post(accounts, json={"metadata": {"name": OTHER}}))
        binding = {
            "metadata": {"name": OTHER},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": OTHER}],
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": ACCOUNT},
        }
        asked(client.post(f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/rolebindings", json=binding))
        wanted = {"spec": {"expirationSeconds": TOKEN_S}}
        token = asked(client.post(f"{accounts}/{OTHER}/token", json=wanted)).json()["status"]["token"]
    return replace(server, token=token)


def measure(report: Report, folder: Path, rounds: int) -> None:
    latencies: dict[str, dict[str, list[float]]] = {}
    flooding, loader = Loader(), Loader()
    try:
        with started_hub(folder / "hub") as server, ThreadPoolExecutor(1) as beside:
            other = other_user(server)
            flooding.run(server, Task(Request("POST", CONFIGMAPS, body(f"kept-{NUMBER}")), 10, count=OBJECTS))
            for number in range(rounds):
                for flood in ("no flood", "get", "create", "list"):
                    mine = requests(f"other-{number}-{flood.split()[0]}", 100)
                    for name, request in mine.items():
                        under_way = None
                        if flood != "no flood":
                            theirs = requests(f"flood-{number}-{name}", OBJECTS)[flood]
                            task = Task(theirs, CONNECTIONS, WARM_S + SECONDS + WARM_S)
                            under_way = beside.submit(flooding.run, server, task)
                        loader.run(other, Task(mine["get"], 1, WARM_S))
                        figures = loader.run(other, Task(request, 1, SECONDS)).figures
                        if under_way is not None:
                            under_way.result()
                        row = latencies.setdefault(f"{name}, {flood}", {"P50": [], "P99": []})
                        for key, values in row.items():
                            values.append(figures[key])
    finally:
        flooding.close()
        loader.close()
    for row_name, row in latencies.items():
        alone = row_name.endswith("no flood")
        for key, values in row.items():
            goal = "≤ 3 × without" if key == "P99" and not alone else ""
            title = f"{row_name if alone else row_name + ' flood'} {key.lower()}"
            report.add(Figure(title, "ms", tuple(values), goal, "" if alone else "no flood"))
