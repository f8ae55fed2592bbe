"""How a command finds its hub, and asks it: the kubeconfig, and one request at a time over the hub's own API.

An option of the command wins over the environment, and a kubeconfig that the environment names over a data directory.
Where nothing is named, the default data directory wins over ~/.kube/config, which mostly is of another cluster. A
kubeconfig of kubectl's may lead to one as well, and some of these commands change things: its server is asked for its
version first.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from fleet.amc.client import Client, NoAnswer, ServerAnswer
from fleet.cli.datadir import locate
from fleet.cli.failure import Failure
from fleet.client.config import ENV_KUBECONFIG, ENV_TOKEN, OWN_VERSION, kubeconfig_files
from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.kubeconfig.files import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.client.steps import Flow, Session, Steps

R = TypeVar("R")
T = TypeVar("T")
PAGE = 500
PAGES_MAX = 4000
WARNINGS_MOST = 20  # that one command shows
_FORBIDDEN = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"')

# A number or a truth value where a text is asked for, in the words of apply, of a schema and of Kubernetes' own types.
_NO_TEXT = re.compile(
    r"expected string, got &value\.valueUnstructured\{Value:(true|false|[-0-9.])"
    r'|must be of type string: "(boolean|integer|number)"'
    r"|cannot unmarshal (bool|number) into Go (struct field \S+|value) of type string"
)
_QUOTES = " (YAML reads yes, no, on, off, true, false and numbers as no text: put the value in quotes)"
_UNKNOWN = (
    "the hub does not know these credentials, or they have ended; an administrator makes others (fleet token create)"
)


class HubRefusal(Failure):
    """The hub has answered, and no; `status` is the code of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def refusal(message: str, status: int) -> HubRefusal:
    """With the way out: other credentials, the role that has the right which lacks, or quotes around a text that YAML
    takes for something else."""
    if status == 401:
        return HubRefusal(f"{message}: {_UNKNOWN}", status)
    hint = _QUOTES if _NO_TEXT.search(message) else ""
    return HubRefusal(message + (_role(message) if status == 403 else hint), status)


class HubClient:
    """The hub's API, for commands: every method raises Failure with one line instead of anything else."""

    def __init__(self, client: Client, source: str, namespace: str = "default") -> None:
        self.client = client
        self.source = source
        self.namespace = namespace
        self._warnings: set[str] = set()

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", missing: bool = False
    ) -> ServerAnswer:
        """One request. A refusal is HubRefusal, except 404 when `missing` is allowed."""
        answer = self._asked(method, path, body, content_type)
        self.warn(answer)
        if answer.ok or (missing and answer.status == 404):
            return answer
        raise refusal(answer.message, answer.status)

    def _asked(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> ServerAnswer:
        try:
            return self.client.request(method, path, body, content_type=content_type)
        except NoAnswer as error:
            raise self.no_answer(str(error), method) from error

    def no_answer(self, why: str, method: str) -> Failure:
        """The failure of a request that had no answer."""
        unknown = "" if method == "GET" else ". Whether the change was made is not known: look before you repeat it"
        return Failure(
            f"the hub does not answer ({self.source}): {why}; is it running? "
            f"curl -k {self.client.access.server}/readyz tells{unknown}"
        )

    def warn(self, answer: ServerAnswer) -> None:
        for text in answer.warnings:
            if len(self._warnings) < WARNINGS_MOST:
                self.note(f"Warning: {text}")

    def note(self, text: str) -> None:
        """Say something beside the answer, each text once."""
        if text not in self._warnings:
            self._warnings.add(text)
            print(text, file=sys.stderr)

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

    @cached_property
    def session(self) -> Session:
        """For operations of fleet.client."""
        from fleet.client.steps import Session

        return Session(self.namespace, tries=1)

    def run(self, steps: Steps[R]) -> R:
        """The result of an operation of fleet.client, as HubClient.request gives answers."""
        from fleet.cli.flows import HubOperation

        carried = HubOperation(self, steps)
        for _ in carried:
            pass
        result: R = carried.result
        return result

    def items(self, flow: Flow[T]) -> Iterator[T]:
        """The items of an operation of fleet.client as they come."""
        from fleet.cli.flows import HubOperation

        return iter(HubOperation(self, flow))

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

    def put_object(self, collection: str, body: dict[str, Any], *, dry_run: bool = False) -> None:
        """Create the object, or merge `body` into the one that is there. `dry_run`: with all checks of the hub, and
        nothing is stored."""
        name, how = body["metadata"]["name"], "?dryRun=All" if dry_run else ""
        found = self.find(f"{collection}/{name}")
        if found is None:
            self.request("POST", f"{collection}{how}", body)
        else:
            self.request("PATCH", f"{collection}/{name}{how}", body, content_type="application/merge-patch+json")


def _role(refusal: str) -> str:
    """The end of a refusal: the least of the ready-made roles that has the verb."""
    from fleet.wellknown.readyroles import role_with

    found = _FORBIDDEN.search(refusal)
    role = role_with(found["verb"], found["group"], found["resource"]) if found else ""
    return f"; the role {role} may {found['verb']} {found['resource']}" if found and role else ""


def connect(
    kubeconfig: Path | None = None,
    data_dir: Path | None = None,
    context: str | None = None,
    *,
    timeout_s: float = 30.0,
    token: str | None = None,
) -> HubClient:
    """The hub that the options, or the environment, name. `token`: in place of the credentials of the kubeconfig, None
    for that of the environment. Raises Failure."""
    files, sure = kubeconfig_files(kubeconfig, data_dir, context, os.environ)
    paths = os.pathsep.join(map(str, files))
    instead = os.environ.get(ENV_TOKEN, "") if token is None else token
    if not any(path.exists() for path in files):
        raise Failure(
            f"no hub found: {paths} does not exist (is `fleet up` running? else give --kubeconfig or --data-dir)"
        )
    try:
        access = load(files, context=context, programs=True, token=instead)
        hub = HubClient(Client(access, timeout_s=timeout_s), paths, access.namespace)
    except BadKubeconfig as error:
        raise Failure(str(error)) from error
    if not sure:
        hub.must_be_one()
    return hub
