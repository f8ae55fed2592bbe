"""The registered webhooks as values, read again when a configuration changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from api.admission.dynamic.matching import GROUP, Match
from fleet.values.ports import Body, Store, StoredObject
from fleet.values.untyped import mapping, rows, text, texts, whole

TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration. `id` is the same for as long as its name and its place among equal names are."""

    id: str
    name: str
    configuration: str
    match: Match
    conditions: tuple[tuple[str, str], ...]  # name, expression
    client: Body  # clientConfig
    ignores_failures: bool
    dry_run: bool  # whether a dry run may call it
    timeout_s: int
    reinvoked: bool
    versions: tuple[str, ...]


class WebhookList:
    """The webhooks of one of the two kinds of configuration, in the order of their calls."""

    def __init__(self, store: Store, resource: str) -> None:
        self._store, self._resource = store, resource
        self._seen: tuple[int, ...] = ()
        self._webhooks: tuple[Webhook, ...] = ()

    def all(self) -> Sequence[Webhook]:
        stored = self._store.scan(GROUP, self._resource)
        if not stored:
            return ()
        seen = tuple(item.revision for item in stored)
        if seen != self._seen:
            self._webhooks = tuple(hook for item in stored for hook in _webhooks(item))
            self._seen = seen
        return self._webhooks


def _webhooks(stored: StoredObject) -> list[Webhook]:
    configuration, places = stored.key.name, Counter[str]()
    found = []
    for hook in rows(stored.body.get("webhooks")):
        name = text(hook.get("name"))
        found.append(_webhook(configuration, f"{configuration}/{name}/{places[name]}", name, hook))
        places[name] += 1
    return found


def _webhook(configuration: str, identity: str, name: str, hook: Body) -> Webhook:
    conditions = [(text(item.get("name")), text(item.get("expression"))) for item in rows(hook.get("matchConditions"))]
    return Webhook(
        id=identity,
        name=name,
        configuration=configuration,
        match=Match.of(hook, hook.get("rules")),
        conditions=tuple(conditions),
        client=mapping(hook.get("clientConfig")),
        ignores_failures=hook.get("failurePolicy") == "Ignore",
        dry_run=hook.get("sideEffects") in ("None", "NoneOnDryRun"),
        timeout_s=whole(hook.get("timeoutSeconds"), TIMEOUT_S),
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        versions=texts(hook.get("admissionReviewVersions")),
    )
