"""How a command finds its hub, and asks it: the kubeconfig, and one request at a time over the hub's own API.

An option of the command wins over the environment, a name of a Fleet hub over a name of any cluster, and the default
data directory over ~/.kube/config, which mostly is of another cluster. A kubeconfig of kubectl's may lead to one as
well, and some of these commands change things: its server is asked for its version first.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fleet.amc.client import Answer, Client, NoAnswer
from fleet.amc.kubeconfig import load, paths
from fleet.cli.datadir import ENV_DATA_DIR, locate
from fleet.cli.failure import Failure
from fleet.engine.kubeconfig import BadKubeconfig

ENV_KUBECONFIG = "FLEET_KUBECONFIG"
PAGE = 500
PAGES_MAX = 4000
WARNINGS_MOST = 20  # that one command shows
OWN_VERSION = "-fleet."  # in what /version says


class Refused(Failure):
    """The hub has answered, and no; `status` is the code of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Hub:
    """The hub's API, for commands: every method raises Failure with one line instead of anything else."""

    def __init__(self, client: Client, source: str, namespace: str = "default") -> None:
        self.client = client
        self.source = source
        self.namespace = namespace
        self._warned: dict[str, None] = {}

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", missing: bool = False
    ) -> Answer:
        """One request. A refusal is Refused, except 404 when `missing` is allowed."""
        answer = self._asked(method, path, body, content_type)
        self._warn(answer)
        if answer.ok or (missing and answer.status == 404):
            return answer
        raise Refused(answer.message, answer.status)

    def _asked(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        try:
            return self.client.request(method, path, body, content_type=content_type)
        except NoAnswer as error:
            raise Failure(f"the hub does not answer ({self.source}): {error}") from error

    def _warn(self, answer: Answer) -> None:
        """Print what the hub warns of, each text once."""
        for text in answer.warnings:
            if text not in self._warned and len(self._warned) < WARNINGS_MOST:
                self._warned[text] = None
                print(f"Warning: {text}", file=sys.stderr)

    def must_be_one(self) -> None:
        """Raises Failure where the server is of another make."""
        version = self._asked("GET", "/version").body
        if OWN_VERSION not in str(version.get("gitVersion") if isinstance(version, dict) else ""):
            context, own = self.client.access.context, locate(None).kubeconfig
            there = f" ({own} names one)" if own.exists() else ""
            raise Failure(
                f'{self.client.access.server} is no Fleet hub (context "{context}" of {self.source}): name the hub with'
                f" --kubeconfig, --context or --data-dir, or set {ENV_KUBECONFIG}{there}"
            )

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


def kubeconfigs(kubeconfig: Path | None, data_dir: Path | None, context: str | None) -> tuple[list[Path], bool]:
    """The files that say where the hub is, and whether they can only be a hub's: those of a data directory."""
    named = os.environ.get(ENV_KUBECONFIG)
    if kubeconfig is not None or (data_dir is None and named):
        return [Path(kubeconfig or named or "").expanduser()], False
    own = locate(data_dir).kubeconfig
    if data_dir is not None or os.environ.get(ENV_DATA_DIR):
        return [own], True
    theirs = paths(None, os.environ)
    if not os.environ.get("KUBECONFIG") and ((own.exists() and not context) or not theirs[0].exists()):
        return [own], True
    return theirs, False


def connect(
    kubeconfig: Path | None = None, data_dir: Path | None = None, context: str | None = None, *, timeout_s: float = 30.0
) -> Hub:
    """The hub that the options, or the environment, name. Raises Failure."""
    files, sure = kubeconfigs(kubeconfig, data_dir, context)
    shown = os.pathsep.join(map(str, files))
    if not any(path.exists() for path in files):
        raise Failure(
            f"no hub found: {shown} does not exist (is `fleet up` running? else give --kubeconfig or --data-dir)"
        )
    try:
        access = load(files, context=context)
        hub = Hub(Client(access, timeout_s=timeout_s), shown, access.namespace)
    except BadKubeconfig as error:
        raise Failure(str(error)) from error
    if not sure:
        hub.must_be_one()
    return hub
