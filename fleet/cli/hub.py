"""How a command finds its hub, and asks it: the kubeconfig, and one request at a time over the hub's own API.

`--kubeconfig`, else FLEET_KUBECONFIG, else the kubeconfig of the data directory. Not KUBECONFIG: that one often points
at some other cluster, and these commands change things.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fleet.amc.client import Answer, Client, NoAnswer
from fleet.amc.kubeconfig import BadKubeconfig, load
from fleet.cli.datadir import locate
from fleet.cli.failure import Failure

ENV_KUBECONFIG = "FLEET_KUBECONFIG"
PAGE = 500
PAGES_MAX = 4000


class Hub:
    """The hub's API, for commands: every method raises Failure with one line instead of anything else."""

    def __init__(self, client: Client, source: Path) -> None:
        self.client = client
        self.source = source

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", missing: bool = False
    ) -> Answer:
        """One request. A refusal is a Failure, except 404 when `missing` is allowed."""
        try:
            answer = self.client.request(method, path, body, content_type=content_type)
        except NoAnswer as error:
            raise Failure(f"the hub does not answer ({self.source}): {error}") from error
        if answer.ok or (missing and answer.status == 404):
            return answer
        raise Failure(answer.message)

    def find(self, path: str) -> dict[str, Any] | None:
        answer = self.request("GET", path, missing=True)
        return answer.body if answer.ok else None

    def list(self, path: str, **parameters: str) -> list[dict[str, Any]]:
        """All items, page by page."""
        items: list[dict[str, Any]] = []
        query = {"limit": str(PAGE), **parameters}
        for _ in range(PAGES_MAX):
            body = self.request("GET", f"{path}?{urlencode(query)}").body
            items += body.get("items") or []
            following = (body.get("metadata") or {}).get("continue")
            if not following:
                return items
            query["continue"] = following
        raise Failure(f"{path}: more than {PAGE * PAGES_MAX} objects")

    def put_object(self, collection: str, body: dict[str, Any]) -> None:
        """Create the object, or merge `body` into the one that is there."""
        name = body["metadata"]["name"]
        found = self.find(f"{collection}/{name}")
        if found is None:
            self.request("POST", collection, body)
        else:
            self.request("PATCH", f"{collection}/{name}", body, content_type="application/merge-patch+json")


def connect(kubeconfig: Path | None = None, data_dir: Path | None = None, *, timeout_s: float = 30.0) -> Hub:
    """The hub that the options, or the environment, name. Raises Failure."""
    chosen = kubeconfig or os.environ.get(ENV_KUBECONFIG)
    path = Path(chosen).expanduser() if chosen else locate(data_dir).kubeconfig
    if not path.exists():
        raise Failure(
            f"no hub found: {path} does not exist (is `fleet up` running? else give --kubeconfig or --data-dir)"
        )
    try:
        return Hub(Client(load([path]), timeout_s=timeout_s), path)
    except BadKubeconfig as error:
        raise Failure(str(error)) from error
