"""The dashboards of a member's Ray clusters, played: `python -m tests.testbed.operators.ray_dashboard KUBECONFIG PORT`.

kwok's pods run nothing, so no Ray answers the operator, and without an answer it never calls a RayJob ended. This
server is the operator's HTTP proxy and answers for every cluster's dashboard: a Ray job is as far as the pod that
submits it. It is the only part of the test bed that is no real thing.
"""

from __future__ import annotations

import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

JOBS = "/api/jobs/"
STATUSES = {"Running": "RUNNING", "Succeeded": "SUCCEEDED", "Failed": "FAILED"}
RAY_JOBS = "/apis/ray.io/v1/rayjobs"


class Member:
    """What the played dashboards look up in their cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        trust = ssl.create_default_context(cafile=cluster["certificate-authority"])
        headers = {"Authorization": f"Bearer {user['token']}"}
        self._client = httpx.Client(base_url=cluster["server"], verify=trust, headers=headers, trust_env=False)

    def job(self, job_id: str) -> dict[str, Any] | None:
        """As Ray tells of a job; None before it was submitted."""
        for job in self._items(RAY_JOBS):
            if job.get("status", {}).get("jobId") == job_id:
                name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
                pods = self._items(f"/api/v1/namespaces/{namespace}/pods?labelSelector=job-name={name}")
                phases = {pod["status"].get("phase") for pod in pods} & set(STATUSES)
                if phases:
                    return {"submission_id": job_id, "status": STATUSES[min(phases, key=list(STATUSES).index)]}
        return None

    def _items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get(path).raise_for_status().json()["items"]
        return found


class Dashboard(BaseHTTPRequestHandler):
    member: Member

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        job = self.member.job(path.removeprefix(JOBS)) if path.startswith(JOBS) else {}
        self._answer(404 if job is None else 200, job or {})

    def do_POST(self) -> None:
        """`stop` of a job whose RayJob is deleted."""
        self._answer(200, {"stopped": True})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    Dashboard.member = Member(Path(sys.argv[1]))
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Dashboard).serve_forever()
