"""Who the users of an API process are: every source of credentials, composed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.cli.failure import Failure
from fleet.hub.access import AccessOptions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from api.access.auth import AnyOf, Authenticator, ServiceAccountTokens, TokenFile
    from api.access.oidc.keys import Fetch
    from api.access.oidc.metrics import OidcMetrics
    from api.outgoing.client import OutgoingClient
    from fleet.cli.datadir import DataDir
    from fleet.hub.compose import CommonParts
    from fleet.values.ports import Clock


@dataclass(frozen=True)
class Users:
    """`accounts` also signs what service accounts get."""

    authenticator: AnyOf
    accounts: ServiceAccountTokens
    metrics: OidcMetrics | None

    def show(self, registry: CollectorRegistry) -> None:
        """Add the metrics of authentication to those of the API."""
        if self.metrics is not None:
            self.metrics.show(registry)


@contextlib.asynccontextmanager
async def users_of(hub: CommonParts, access: AccessOptions, outgoing: OutgoingClient) -> AsyncIterator[Users]:
    """Users by the hub's tokens, service accounts, the hub's own parts, and the issuers of the configuration. Raises
    Failure for a configuration that cannot be used."""
    from api.access.auth import AnyOf, ServiceAccountTokens
    from api.access.storedtokens import StoredTokens
    from fleet.relays.peers import AgentTokens, PeerTokens

    key = hub.data.service_account_key.read_bytes()
    accounts = ServiceAccountTokens(key, hub.store, hub.clock)
    sources: list[Authenticator] = [
        administrator(hub.data, hub.clock),
        StoredTokens(hub.store, hub.clock),
        accounts,
        AgentTokens(hub.store),
        PeerTokens(key, hub.clock),
    ]
    issuers = access.issuers()
    if access.authentication_config is None and not issuers:
        yield Users(AnyOf(*sources), accounts, None)
        return
    from api.access.oidc.metrics import OidcMetrics
    from api.access.oidc.tokens import OidcTokens
    from api.access.oidc.watchedconfiguration import WatchedConfiguration
    from fleet.values.sections import BadConfiguration

    metrics = OidcMetrics()
    tokens = OidcTokens(fetch_by(outgoing), hub.clock, metrics)
    if access.authentication_config is None:
        tokens.configure(issuers)
        metrics.good.set(1)
        try:
            yield Users(AnyOf(*sources, tokens), accounts, metrics)
        finally:
            await tokens.stop()
        return
    watched = WatchedConfiguration(access.authentication_config, tokens, metrics)
    try:
        await watched.start()
    except BadConfiguration as error:
        raise Failure(f"--authentication-config {access.authentication_config}: {error}") from error
    try:
        yield Users(AnyOf(*sources, tokens), accounts, metrics)
    finally:
        await watched.stop()


def administrator(data: DataDir, clock: Clock) -> TokenFile:
    """The administrator's own token, which works whatever the database holds."""
    from api.access.auth import TokenFile

    return TokenFile(data.tokens, clock, most=1)


def fetch_by(outgoing: OutgoingClient) -> Fetch:
    """The way to documents of issuers: through the client of the hub's own requests."""
    from api.access.oidc.keys import DOCUMENT_BYTES_MAX, FETCH_S, FetchFailure
    from api.outgoing.errors import OutgoingError

    async def fetch(url: str, authority: str) -> bytes:
        headers = {"accept": "application/json"}
        try:
            answer = await outgoing.request(
                "GET", url, headers=headers, ca=authority or None, timeout=FETCH_S, limit=DOCUMENT_BYTES_MAX
            )
        except OutgoingError as error:
            raise FetchFailure(f"{error.reason}: {error}") from None
        if answer.status != 200:
            raise FetchFailure(f"HTTP {answer.status}")
        return answer.body

    return fetch
