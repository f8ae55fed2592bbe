"""Puts the parts of an API process together.

Everything is imported inside the function: a process loads only the parts that it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fleet.cli.datadir import DataDir
from fleet.hub.certificates import Certificates
from fleet.hub.compose import Databases, base, database, same_hub

if TYPE_CHECKING:
    from fleet.hub.access import AccessOptions

FINISH_S = 8.0  # for the requests under way when an API process ends: less than a supervisor waits
PARSED_BYTES = 256 << 20  # of the objects in an API process, where most answers need no parsed form


async def serve_api(
    data: DataDir,
    urls: Databases,
    listener: socket.socket,
    stop: asyncio.Event,
    on_ready: Callable[[], None],
    access: AccessOptions,
    advertise: str = "",
    drain_s: float = 0.0,
    otlp: str = "",
) -> None:
    """The API process: serves on `listener` until `stop`, and drains. `advertise`: its address for other processes of
    the hub. `otlp`: where its traces go, "" for nowhere."""
    from api.access.rbac import Rbac, answering
    from api.access.storedtokens import StoredTokens
    from api.admission.dynamic import DynamicAdmission
    from api.admission.dynamic.failing import FailingHooks
    from api.audit.requests import RequestLog
    from api.fairness.gate import Fairness
    from api.objects.converting import Conversions
    from api.outgoing import OutgoingClient
    from api.server.openapi import OpenApi
    from api.store.metrics import StoreMetrics
    from api.transport.serve import Server
    from fleet.admission.kindfiles import load_kinds
    from fleet.admission.seed import seed
    from fleet.bindings.heartbeat import component_checks
    from fleet.controllers.decide.manifestunits import unit_in
    from fleet.controllers.runtime.terms import end_term
    from fleet.hub.audit import audit_of
    from fleet.hub.authentication import users_of
    from fleet.hub.console import console_of
    from fleet.hub.face import hub_app
    from fleet.hub.parts import Parts
    from fleet.hub.requestspans import request_spans
    from fleet.hub.serving import followed, serving_certificates
    from fleet.hub.tracing import traces_of
    from fleet.hub.tunnels import address_of, dialer_of, holder_of
    from fleet.relays.relays import Relays
    from fleet.rest.changes import PATH as CHANGES
    from fleet.rest.changes import ChangeStreams
    from fleet.rest.columns import JobColumns
    from fleet.rest.context import RestHub
    from fleet.rest.historydb import HistoryDatabase
    from fleet.rest.jobwatch import PATH as WATCHED
    from fleet.rest.jobwatch import JobWatches
    from fleet.rest.line import Lines
    from fleet.rest.mount import PREFIX, RestFace

    async with (
        database(data, urls.hub) as dsn,
        base(data, dsn, PARSED_BYTES) as hub,
        contextlib.aclosing(OutgoingClient(access.allowed())) as outgoing,
        users_of(hub, access, outgoing) as users,
        audit_of(access, outgoing, hub.clock) as audit_log,
        contextlib.aclosing(HistoryDatabase(urls.history or dsn)) as history,
        traces_of(otlp, "fleet-api", data.hub_id) as traces,
    ):
        rbac = Rbac(hub.store)
        failing = FailingHooks(hub.clock)
        hub.objects.hooks = hooks = DynamicAdmission(
            hub.store, hub.registry, hub.ids, outgoing, answering(rbac), failing
        )
        hub.objects.versions.converter = Conversions(outgoing, hub.store, hub.ids)
        await seed(hub.objects, load_kinds())
        await same_hub(hub, record=True)
        await end_term(hub.objects)  # the database may be a restored one
        tunnels = holder_of(hub, advertise or address_of(listener))
        dialer = dialer_of(hub, tunnels)
        parts = component_checks(hub.store, hub.clock)
        relays = Relays(hub.objects, hub.data.hub_id, dial=dialer.dial, outgoing=outgoing)
        served = serving_certificates(data, access.certificate)
        certificates = Certificates(data, access.authorities(data.ca_certificate), served.public.certificate)
        own = Parts(data, dsn, hub.clock, certificates, history, hooks.failing)
        audit_log.audit.requests = RequestLog(
            hub.clock, request_spans(traces, hub.clock) if traces is not None else None
        )
        lines = Lines(hub.store)
        tokens = StoredTokens(hub.store, hub.clock, data.tokens)
        await tokens.take_over()
        views = RestFace(hub.objects, hub.store, hub.registry, partial(unit_in, hub.store), history, own, tokens, lines)
        fairness = Fairness(hub.objects)
        app = hub_app(
            hub.objects,
            hub.store,
            hub.registry,
            clock=hub.clock,
            authenticator=users.authenticator,
            authorizer=rbac,
            openapi=OpenApi(hub.registry),
            tokens=users.accounts,
            mounts={
                PREFIX: views,
                CHANGES: ChangeStreams(hub.store, hub.registry, rbac, hub.clock),
                WATCHED: JobWatches(RestHub(hub.objects, hub.store, hub.registry), rbac, lines),
            },
            checks={"controllers": parts["scheduler"]},
            parts=parts,
            extra_routes={**tunnels.routes(), **relays.routes()},
            dial=dialer.dial,
            audit=audit_log.audit,
            fairness=fairness,
            console=console_of(hub, access, users.authenticator, outgoing),
        )
        app.joined = JobColumns(hub.store, hub.registry, hub.clock)
        app.metrics.agents.set_function(lambda: len(tunnels))
        tunnels.show(app.metrics.registry)
        users.show(app.metrics.registry)
        audit_log.show(app.metrics.registry)
        certificates.show(app.metrics.registry)
        failing.show(app.metrics.registry)
        if traces is not None:
            traces.show(app.metrics.registry)
        relays.show(app.metrics.registry)
        StoreMetrics(hub.store).show(app.metrics.registry)
        await app.start()
        host, port = listener.getsockname()[:2]
        server = Server(
            app,
            host=host,
            port=port,
            certificates=served,
            close_streams=app.close_streams,
            listener=listener,
            metrics=app.metrics.edge,
            client_authorities=access.authorities(data.ca_certificate),
            drain_s=drain_s,
            on_drain=app.drain,
            finish_s=FINISH_S,
            reader=fairness.reader,
        )
        try:
            await server.start()
            on_ready()
            async with followed(served, server.renew):
                await stop.wait()
        finally:
            await server.stop()
            await app.stop()
            await relays.aclose()
            await dialer.aclose()
