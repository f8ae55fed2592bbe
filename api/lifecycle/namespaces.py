"""Namespaces: a `default` ServiceAccount in each new one, the certificate of the hub's authority, and the end of each
that is deleted.

A namespace being deleted takes no new objects (the API sees to that); here everything in it is deleted, kind by kind,
and when nothing is left the finalizer goes, and the namespace with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.engine.status import StatusError
from api.loops.controller import Controller, Source
from api.objects.objects import Objects
from api.objects.writing import Options
from fleet.values.ports import Body, Event, EventType, Key, StaleEpoch, StoreUnavailable
from fleet.values.untyped import mapping, texts

AGAIN_S = 0.5  # while finalizers hold what is in it
KUBERNETES = "kubernetes"
_DESCRIPTION = "The certificate of the authority behind this API server. Every namespace has one."
ROOT_CERTIFICATE = "kube-root-ca.crt"  # the ConfigMap from which programs in a namespace learn whom to trust


def _of_accounts(event: Event) -> Iterable[Key]:
    if event.type is not EventType.DELETED or event.stored.key.name != "default":
        return ()
    return (Key("", "namespaces", "", event.stored.key.namespace),)


def _of_certificates(event: Event) -> Iterable[Key]:
    key = event.stored.key
    return (Key("", "namespaces", "", key.namespace),) if key.name == ROOT_CERTIFICATE else ()


class Namespaces:
    """A Loop. `root_certificate`: of the authority behind the hub's own, as PEM; without it no ConfigMap says it."""

    name = "namespaces"

    def __init__(self, objects: Objects, options: Options, root_certificate: str = "") -> None:
        self._objects, self._options, self._root_certificate = objects, options, root_certificate
        sources = [Source("", "namespaces"), Source("", "serviceaccounts", _of_accounts)]
        if root_certificate:
            sources.append(Source("", "configmaps", _of_certificates))
        self.controller = Controller(self.name, objects.store, sources, self._reconcile)

    async def run(self) -> None:
        await self.controller.run()

    async def _reconcile(self, key: Key) -> float | None:
        stored = await self._objects.store.get(key)
        if stored is None:
            return None
        if stored.body["metadata"].get("deletionTimestamp"):
            return await self._finish(key, stored.body)
        await self._account(key.name)
        if self._root_certificate:
            await self._certificate(key.name)
        return None

    async def _certificate(self, namespace: str) -> None:
        data = {"ca.crt": self._root_certificate}
        stored = await self._objects.store.get(Key("", "configmaps", namespace, ROOT_CERTIFICATE))
        if stored is None:
            metadata = {
                "name": ROOT_CERTIFICATE,
                "namespace": namespace,
                "annotations": {"kubernetes.io/description": _DESCRIPTION},
            }
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._make("configmaps", namespace, body)
        elif stored.body.get("data") != data:

            def change(body: Body) -> Body | None:
                body["data"] = data
                return body

            kind = self._objects.registry.need("", "configmaps")
            await self._objects.change(kind, namespace, ROOT_CERTIFICATE, change, self._options, uid=stored.uid)

    async def _account(self, namespace: str) -> None:
        if await self._objects.store.get(Key("", "serviceaccounts", namespace, "default")) is not None:
            return
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}
        await self._make("serviceaccounts", namespace, body)

    async def _make(self, resource: str, namespace: str, body: Body) -> None:
        try:
            await self._objects.create(self._objects.registry.need("", resource), namespace, body, self._options)
        except StatusError as error:
            if error.code not in (403, 404, 409):  # going, gone, or made by another writer
                raise

    async def _finish(self, key: Key, namespace: Body) -> float | None:
        remainder, failed = False, None
        for kind in list(self._objects.registry):
            if not kind.namespaced or "delete" not in kind.verbs:
                continue
            page = await self._objects.store.list(kind.group, kind.resource, namespace=key.name)
            for stored in page.items:
                try:
                    written = await self._objects.delete(
                        kind, key.name, stored.key.name, self._options, {"propagationPolicy": "Background"}
                    )
                except (StaleEpoch, StoreUnavailable):
                    raise
                except Exception as error:  # the others go all the same
                    if not (isinstance(error, StatusError) and error.code == 404):
                        failed = error
                else:
                    remainder = remainder or not written.deleted
        if failed is not None:
            raise failed
        if remainder:
            return AGAIN_S

        def change(body: Body) -> Body | None:
            spec = body["spec"] = dict(mapping(body.get("spec")))
            spec["finalizers"] = [f for f in texts(spec.get("finalizers")) if f != KUBERNETES]
            return body

        kind = self._objects.registry.need("", "namespaces")
        uid = namespace["metadata"]["uid"]
        await self._objects.change(kind, "", key.name, change, self._options, uid=uid)
        return None
