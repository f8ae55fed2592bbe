"""`fleet submit` and every kubectl apply one manifest in turn: no conflict, and nothing stays that has left it."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
import yaml

from fleet.cli.applying import Applier
from fleet.cli.hub import connect
from tests.api.conftest import KUBECTLS, Hub
from tests.api.manifests import OBJECTS
from tests.slow import repeated

MODES = {"client": ("apply",), "server": ("apply", "--server-side")}
Body = dict[str, Any]


def changed(body: Body, *labels: str) -> Body:
    """The manifest with these labels of its own."""
    found = copy.deepcopy(body)
    found["metadata"]["labels"] = dict.fromkeys(labels, "1")
    return found


async def submit(hub: Hub, body: Body) -> None:
    def run() -> None:
        Applier(connect(hub.kubeconfig()), "default").apply(body)

    await asyncio.to_thread(run)


async def labels(hub: Hub, kubectl: str, kind: str, body: Body) -> set[str]:
    _, out, _ = await hub.kubectl(kubectl, "get", kind, body["metadata"]["name"], "-o", "json")
    return set(json.loads(out)["metadata"]["labels"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("minor", repeated(KUBECTLS, short=(min(KUBECTLS), max(KUBECTLS))))
async def test_either_goes_on_where_the_other_was(hub: Hub, minor: str, kind: str, mode: str) -> None:
    kubectl, body = KUBECTLS[minor], OBJECTS[kind]

    async def by_kubectl(manifest: Body) -> str:
        _, _, err = await hub.kubectl(kubectl, *MODES[mode], "-f", "-", stdin=yaml.safe_dump(manifest))
        return err

    await submit(hub, changed(body, "a", "b"))
    assert await by_kubectl(changed(body, "b", "c")) == ""
    assert await labels(hub, kubectl, kind, body) == {"b", "c"}
    await submit(hub, changed(body, "c", "d"))
    assert await labels(hub, kubectl, kind, body) == {"c", "d"}
    assert await by_kubectl(changed(body, "e")) == ""
    assert await labels(hub, kubectl, kind, body) == {"e"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", OBJECTS)
async def test_what_kubectl_has_made_is_submitted(hub: Hub, kind: str, mode: str) -> None:
    [*_, kubectl] = KUBECTLS.values()
    body = OBJECTS[kind]
    await hub.kubectl(kubectl, *MODES[mode], "-f", "-", stdin=yaml.safe_dump(changed(body, "a", "b")))
    await hub.kubectl(kubectl, "label", kind, body["metadata"]["name"], "by=hand")
    await submit(hub, changed(body, "b"))
    assert await labels(hub, kubectl, kind, body) == {"b", "by"}
