"""The hub over HTTP, for tests that watch it many times a second or while it is being killed.

kubectl costs a process for every question; a test that looks fifty times a second, or submits thirty jobs while the
API dies under it, needs a client that costs next to nothing and says exactly what was acknowledged.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import httpx
import yaml

Body = dict[str, Any]

JOBS = "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs"
ALL_JOBS = "/apis/kubeflow.org/v1/pytorchjobs"
BINDINGS = "/apis/work.karmada.io/v1alpha2/resourcebindings"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/queueunits"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/{}/propagationpolicies"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
EVENTS = "/api/v1/namespaces/{}/events"


class Refused(Exception):
    """The hub answered, and not with success. `status` is the Status object."""

    def __init__(self, code: int, status: Body) -> None:
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code, self.status = code, status


class Client:
    """JSON over TLS with an admin's kubeconfig, of the hub or of a member. Methods raise Refused, or httpx.HTTPError
    when nobody answered."""

    def __init__(self, kubeconfig: Path, *, timeout_s: float = 15.0) -> None:
        self.kubeconfig = kubeconfig
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        if "certificate-authority" in cluster:
            authority = Path(cluster["certificate-authority"]).read_text()
        else:
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        headers = {"Accept": "application/json"}
        if "token" in user:
            headers["Authorization"] = f"Bearer {user['token']}"
        if "client-certificate-data" in user:
            with tempfile.TemporaryDirectory() as folder:
                certificate, key = Path(folder) / "crt", Path(folder) / "key"
                certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
                key.write_bytes(base64.b64decode(user["client-key-data"]))
                context.load_cert_chain(certificate, key)
        self.http = httpx.Client(base_url=cluster["server"], verify=context, headers=headers, timeout=timeout_s)

    def close(self) -> None:
        self.http.close()

    def get(self, path: str, **params: str) -> Body:
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Body) -> Body:
        return self._ask("POST", path, json=body)

    def put(self, path: str, body: Body) -> Body:
        return self._ask("PUT", path, json=body)

    def patch(self, path: str, body: Body) -> Body:
        return self._ask("PATCH", path, json=body, headers={"Content-Type": "application/merge-patch+json"})

    def delete(self, path: str) -> Body:
        return self._ask("DELETE", path)

    def items(self, path: str) -> list[Body]:
        found: list[Body] = self.get(path)["items"]
        return found

    def in_member(self, member: str, path: str) -> list[Body]:
        """Items of a list in a member, through the hub's proxy."""
        return self.items(f"{CLUSTERS}/{member}/proxy{path}")

    def _ask(self, method: str, path: str, **more: Any) -> Body:
        answer = self.http.request(method, path, **more)
        body: Body = answer.json()
        if answer.status_code >= 400:
            raise Refused(answer.status_code, body)
        return body
