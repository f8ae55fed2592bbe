"""Objects applied on the hub, so that kubectl may go on with what was submitted.

Objects are applied on the server under the name that kubectl uses there, with the manifest in the annotation that
`kubectl apply` compares with: a field that leaves a manifest leaves the object, whichever of them applied it before.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from fleet.amc.discovery import Resource
    from fleet.cli.hub import HubClient

Body = dict[str, Any]

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
MANAGER = "kubectl"
FOLDED = (("kubectl-client-side-apply", "Update"), ("fleet-submit", "Apply"))  # the second: of older releases
FOLD_TRIES = 3
FORBIDDEN, CONFLICT = 403, 409
NOTED_MOST_BYTES = 200_000  # of a manifest that is noted in an annotation, which may have 256 KiB


class UnservedKind(Failure):
    """The hub serves no such kind."""


class Applier:
    """Applies objects one by one. `dry_run`: with all checks and defaults of the hub, and nothing is stored."""

    def __init__(self, hub: HubClient, namespace: str, *, dry_run: bool = False) -> None:
        self.hub = hub
        self.namespace = namespace
        self.dry_run = dry_run
        self._resources: dict[tuple[str, str], Resource] = {}

    def apply(self, body: Body) -> tuple[str, Body]:
        """The line that kubectl would print, and the stored object. Raises Failure: UnservedKind and HubRefusal are
        about this object alone."""
        resource, path = self.addressed(body)
        how = "&fieldValidation=Strict" + ("&dryRun=All" if self.dry_run else "")
        if body["metadata"].get("name"):
            if not self.dry_run:
                _fold(self.hub, path)
            how = f"{path}?fieldManager={MANAGER}&force=true{how}"
            answer = self.hub.request("PATCH", how, _noted(body), content_type=APPLY)
        else:
            answer = self.hub.request("POST", f"{path}?fieldManager={MANAGER}-create{how}", body)
        stored: Body = answer.body
        done = "created" if answer.status == 201 else "applied"
        name = stored["metadata"].get("name") or f"{body['metadata'].get('generateName')}…"
        return f"{resource.prefix}/{name} {done}" + (" (dry run)" if self.dry_run else ""), stored

    def would_replace(self, body: Body) -> tuple[str, Body]:
        """The line of an object that takes the place of one of its name, and its manifest: checked in all that the hub
        checks of a new object, with nothing stored or deleted. Raises Failure as `apply` does."""
        from fleet.cli.hub import HubRefusal

        resource, path = self.addressed(body)
        collection, _, name = path.rpartition("/")
        dry = f"fieldManager={MANAGER}&fieldValidation=Strict&dryRun=All"
        for method, where, how in (
            ("POST", f"{collection}?{dry}", JSON),  # all but its name, which is taken: 409 comes after all other checks
            (
                "PATCH",
                f"{path}?{dry}&force=true",
                APPLY,
            ),  # the right to apply it; the rest of this is about the old one
        ):
            try:
                self.hub.request(method, where, _noted(body), content_type=how)
            except HubRefusal as refused:
                if refused.status == FORBIDDEN or (method == "POST" and refused.status != CONFLICT):
                    raise
        return f"{resource.prefix}/{name} replaced" + (" (dry run)" if self.dry_run else ""), body

    def addressed(self, body: Body) -> tuple[Resource, str]:
        """The object's resource, and its path; that of its collection for one whose name the hub completes."""
        group, _, version = body["apiVersion"].rpartition("/")
        resource = self._resource(group, body["kind"])
        if resource is None:
            near = difflib.get_close_matches(body["kind"], [kind for _, kind in self._resources], 1)
            meant = "; did you mean " + " or ".join(_named(self._resources, near[0])) + "?" if near else ""
            raise UnservedKind(f'the hub does not serve kind "{body["kind"]}" of {body["apiVersion"]}{meant}')
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        where = f"/namespaces/{body['metadata'].get('namespace') or self.namespace}" if resource.namespaced else ""
        name = body["metadata"].get("name")
        return resource, f"{base}{where}/{resource.plural}" + (f"/{name}" if name else "")

    def _resource(self, group: str, kind: str) -> Resource | None:
        """Asks the hub again for a kind that is not known: its definition may stand further up in the same file."""
        from fleet.amc.discovery import discover

        if (group, kind) not in self._resources:
            found = reversed(discover(self.hub.client))
            self._resources = {(resource.group, resource.kind): resource for resource in found}
        return self._resources.get((group, kind))


def _named(known: dict[tuple[str, str], Resource], kind: str) -> list[str]:
    return sorted(
        f"{kind} of {resource.group + '/' if resource.group else ''}{resource.version}"
        for (_, other), resource in known.items()
        if other == kind
    )


def _noted(body: dict[str, Any]) -> dict[str, Any]:
    """With itself in the annotation of `kubectl apply`."""
    from fleet.submission.dumps import LAST_APPLIED

    text = json.dumps(body, separators=(",", ":")) + "\n"
    if len(text.encode()) > NOTED_MOST_BYTES:
        return body
    annotations = {**(body["metadata"].get("annotations") or {}), LAST_APPLIED: text}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


def _fold(hub: HubClient, path: str) -> None:
    """Make the fields that `kubectl apply` holds ours, so that fields that have left the manifest leave the object."""
    from fleet.cli.hub import HubRefusal

    for attempt in range(1, FOLD_TRIES + 1):
        try:
            metadata = (hub.find(path) or {}).get("metadata") or {}
        except HubRefusal:  # a user who may write the object may not be allowed to look at it
            return
        managed = folded(metadata.get("managedFields") or [])
        if managed is None:
            return
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": managed}}
        try:
            hub.request("PATCH", path, patch, content_type=MERGE)
            return
        except HubRefusal as refused:
            if refused.status != 409 or attempt == FOLD_TRIES:
                raise


def folded(managed: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """`managed` with what FOLDED hold in one entry of MANAGER; None when they hold nothing."""
    folds = [e for e in managed if (e.get("manager"), e.get("operation")) in FOLDED and not e.get("subresource")]
    if not folds:
        return None
    ours = [e for e in managed if (e.get("manager"), e.get("operation")) == (MANAGER, "Apply")]
    whole = {**folds[0], "manager": MANAGER, "operation": "Apply"}
    for entry in (*folds[1:], *ours):
        whole["fieldsV1"] = _union(whole.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
    return [*(entry for entry in managed if entry not in folds and entry not in ours), whole]


def _union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {key: _union(one.get(key) or {}, other.get(key) or {}) for key in {**one, **other}}
