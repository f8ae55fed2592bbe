"""Which binding is meant: by its uid (members know nothing else of it) and by the object that it places."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.bindings import binding as b
from fleet.bindings.names import binding_of
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.values.ports import Key, StoredObject


class BindingIndex:
    """Uids and keys of bindings, learned as they are seen."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._keys: dict[str, Key] = {}

    def put(self, stored: StoredObject) -> None:
        self._keys[stored.uid] = stored.key

    def key(self, uid: str) -> Key | None:
        """None for a uid that no binding has now."""
        if not uid:
            return None
        key = self._keys.get(uid)
        stored = self._hub.store.peek(key) if key is not None else None
        if stored is not None and stored.uid == uid:
            return key
        self._keys.pop(uid, None)
        return None

    def of_object(self, key: Key) -> Iterable[Key]:
        """The key that the object's binding has, if it has one."""
        kind = self._hub.registry.resource(key.group, key.resource)
        if kind is None:
            return ()
        found = binding_of(self._hub.store.peek, kind.group, kind.kind, key.namespace, key.name)
        if found is None or object_key(self._hub.registry, b.resource_of(found.body)) != key:
            return ()
        return (found.key,)
