"""The jobs of one kind in one namespace, as a user handles them with kubectl."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from tests.e2e.hub import World
from tests.e2e.manifests import Manifest, gang_policy


class Life(Protocol):
    """A kind, and a small job of it."""

    @property
    def kind(self) -> str: ...
    @property
    def api(self) -> str: ...
    @property
    def resource(self) -> str: ...
    def job(self, name: str, *, run_for: str = "", exit_code: int = 0) -> Manifest: ...
    def suspension(self, value: bool) -> Manifest:
        """A merge patch."""
        ...


class Jobs:
    """Its policy sends them through the queue of the namespace."""

    def __init__(self, world: World, life: Life, namespace: str) -> None:
        self.world, self.namespace = world, namespace
        self.life = life
        self.resource = f"{life.resource}.{life.api.partition('/')[0]}"
        selector = {"apiVersion": life.api, "kind": life.kind}
        world.kubectl.apply(gang_policy(queue=True, resourceSelectors=[selector]), namespace=namespace)

    def submit(self, name: str, *, run_for: str = "", exit_code: int = 0) -> None:
        job = self.life.job(name, run_for=run_for, exit_code=exit_code)
        self.world.kubectl.apply(job, namespace=self.namespace)

    def phase(self, name: str) -> str:
        """Of its unit, "" when there is none."""
        unit = f"{name}-{self.life.kind.lower()}-rb-qu"
        done = self.world.kubectl.try_run("get", "qu", unit, "-n", self.namespace, "-o", "jsonpath={.status.phase}")
        return done.out if done.code == 0 else ""

    def suspend(self, name: str, value: bool) -> None:
        patch = json.dumps(self.life.suspension(value))
        self.world.kubectl.run("patch", self.resource, name, "-n", self.namespace, "--type=merge", "-p", patch)

    def delete(self, *names: str) -> None:
        for name in names:
            self.world.kubectl.run("delete", self.resource, name, "-n", self.namespace, timeout_s=240)

    def in_members(self) -> Sequence[tuple[str, str]]:
        """(member, name) of all their copies and pods."""
        path = f"/apis/{self.life.api}/namespaces/{self.namespace}/{self.life.resource}"
        return self.world.copies(path) + self.world.pods_in_members(self.namespace)

    def on_hub(self) -> list[dict[str, Any]]:
        """Their bindings and units."""
        kubectl, here = self.world.kubectl, ("-n", self.namespace)
        return kubectl.items("rb", *here) + kubectl.items("qu", *here)
