"""Latencies of one user, without a flood of another user and with one.

    python -m tests.bench.run fairness

The flood is 200 connections of one service account, each of which asks again as soon as it has its answer. The other
account has one connection, on which it does the same, or asks now and then. Each has a load program of its own.

The load and the database take processor time as well, which is not the hub's doing. So the same flood is sent to
another hub on this machine, too. A kube-apiserver gets a flood for comparison.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.bench.api import body
from tests.bench.loader import NUMBER, Loader, Request, Task
from tests.bench.report import Figure, Report
from tests.bench.servers import ACCOUNT, CONFIGMAPS, NAMESPACE, RBAC, TOKEN_S, Server, asked, started_hub, started_real

CONNECTIONS = 200
OBJECTS = 2000
SECONDS = 3.0
WARM_S = 1.0
OTHER = "other"
SELDOM = "get now and then"
PER_S = 20.0  # of these
FLOODS = ("get", "create", "list")
ELSEWHERE = {f"another hub's {flood}": flood for flood in FLOODS}  # floods of another hub, and what they ask for
CASES = [
    *((name, "hub", flood) for flood in ("no flood", *FLOODS) for name in ("get", SELDOM, "create", "list")),
    *((name, "hub", flood) for flood in ELSEWHERE for name in ("get", SELDOM)),
    *(("get", "kube-apiserver", flood) for flood in ("no flood", "get")),
]


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
    latencies: dict[tuple[str, str], dict[str, list[float]]] = {}
    flooding, loader = Loader(), Loader()
    try:
        with (
            started_hub(folder / "hub") as server,
            started_hub(folder / "another") as another,
            started_real(folder / "real") as real,
            ThreadPoolExecutor(1) as beside,
        ):
            users = {one.name: (one, other_user(one)) for one in (server, real)}
            for one in (server, another, real):
                flooding.run(one, Task(Request("POST", CONFIGMAPS, body(f"kept-{NUMBER}")), 10, count=OBJECTS))
            for number in range(rounds):
                for case, (name, where, flood) in enumerate(CASES):
                    flooded, other = users[where]
                    kind = ELSEWHERE.get(flood, flood)
                    mine = requests(f"other-{number}-{case}", 100)
                    under_way = None
                    if flood != "no flood":
                        theirs = requests(f"flood-{number}-{case}", OBJECTS)[kind]
                        task = Task(theirs, CONNECTIONS, WARM_S + SECONDS + WARM_S)
                        under_way = beside.submit(flooding.run, another if flood in ELSEWHERE else flooded, task)
                    rate = PER_S if name == SELDOM else 0.0
                    loader.run(other, Task(mine["get"], 1, WARM_S, rate=rate))
                    asked = mine["get" if name == SELDOM else name]
                    figures = loader.run(other, Task(asked, 1, SECONDS, rate=rate)).figures
                    if under_way is not None:
                        under_way.result()
                    what = name if where == server.name else f"{where}: {name}"
                    row = latencies.setdefault((what, flood), {"P50": [], "P99": []})
                    for key, values in row.items():
                        values.append(figures[key])
    finally:
        flooding.close()
        loader.close()
    for (what, flood), row in latencies.items():
        alone = flood == "no flood"
        for key, values in row.items():
            goal = "≤ 3 × without" if key == "P99" and not alone and flood not in ELSEWHERE else ""
            title = f"{what}, {flood if alone else f'{flood} flood'} {key.lower()}"
            report.add(Figure(title, "ms", tuple(values), goal, "" if alone else "no flood"))
