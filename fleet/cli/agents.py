"""The manifest of a member's agent, as `fleet join --agent` hands it out."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fleet.cli import joining
from fleet.cli.failure import Failure
from fleet.cli.hub import HubClient
from fleet.values.files import write_private

NAMESPACE = "fleet-agent"
HEALTH_PORT = 8086
UID = 10001  # of the image's user
_LOCAL = ("localhost", "127.0.0.1", "::1")
Body = dict[str, Any]


def hand_out(hub: HubClient, member: joining.MemberFacts, url: str, image: str, output: Path | None) -> None:
    """Join the member, and print or write the manifest that connects it. Raises Failure."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise Failure(f"--hub-url {url}: not an https:// URL")
    token = joining.join_pull(hub, member)
    text = manifest(member.name, url.rstrip("/"), hub.client.access.ca, token, image)
    if output is None:
        print(text, end="")
    else:
        _write(output, text)
    if parts.hostname in _LOCAL:
        print(
            f"Warning: {url} is this machine alone: name the hub as the member reaches it, with --hub-url",
            file=sys.stderr,
        )
    where = str(output) if output is not None else "this manifest"
    print(f"{member.name} is joined; apply {where} in it to connect it", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    """The file holds a token: only its owner may read it."""
    try:
        write_private(path, text.encode())
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror or error}") from error


def manifest(name: str, url: str, ca: bytes | None, token: str, image: str) -> str:
    """A namespace, an account without any right, the agent's Secret and its Deployment, as YAML."""
    import yaml

    labels = {"app.kubernetes.io/name": NAMESPACE}
    secret = {"token": token, **({"ca.crt": ca.decode()} if ca else {})}
    objects: list[Body] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _meta(labels),
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": _meta(labels),
            "type": "Opaque",
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in secret.items()},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _meta(labels),
            "spec": {
                "replicas": 1,
                "strategy": {"type": "Recreate"},  # of two agents of one name only the newer serves
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {
                        "labels": labels,
                        "annotations": {"checksum/token": hashlib.sha256(token.encode()).hexdigest()[:16]},
                    },
                    "spec": _pod(name, url, image, with_ca=ca is not None),
                },
            },
        },
    ]
    return yaml.safe_dump_all(objects, sort_keys=False)


def _meta(labels: Body) -> Body:
    return {"name": NAMESPACE, "namespace": NAMESPACE, "labels": dict(labels)}


def _pod(name: str, url: str, image: str, *, with_ca: bool) -> Body:
    arguments = ["agent", name, "--hub", url, "--token-file", "/etc/fleet-agent/token"]
    arguments += ["--ca-file", "/etc/fleet-agent/ca.crt"] if with_ca else []
    arguments += ["--health-listen", f":{HEALTH_PORT}"]

    def probe(path: str, **settings: int) -> Body:
        return {"httpGet": {"path": path, "port": HEALTH_PORT}, **settings}

    return {
        "serviceAccountName": NAMESPACE,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "fsGroup": UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "agent",
                "image": image,
                "args": arguments,
                "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "384Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "livenessProbe": probe("/healthz", initialDelaySeconds=10, periodSeconds=10, timeoutSeconds=5),
                "readinessProbe": probe("/readyz", periodSeconds=5, timeoutSeconds=5),
                "volumeMounts": [{"name": "agent", "mountPath": "/etc/fleet-agent", "readOnly": True}],
            }
        ],
        "volumes": [{"name": "agent", "secret": {"secretName": NAMESPACE, "defaultMode": 0o440}}],
    }
