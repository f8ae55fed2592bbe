"""Counters of tokens of outside issuers. The labels are issuers of the file and a few words."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class OidcMetrics:
    """Made before the application whose registry shows them: `show` adds them there."""

    def __init__(self) -> None:
        self.refused = Counter(
            "fleet_api_oidc_refused_total",
            "Tokens of a known issuer that were refused, by reason.",
            ("issuer", "why"),
            registry=None,
        )
        self.fetched = Counter(
            "fleet_api_oidc_fetches_total",
            "Fetches of an issuer's keys, by outcome.",
            ("issuer", "outcome"),
            registry=None,
        )
        self.reloads = Counter(
            "fleet_api_authentication_config_reloads_total",
            "Changed states of the authentication configuration, by outcome.",
            ("outcome",),
            registry=None,
        )
        self.good = Gauge(
            "fleet_api_authentication_config_good",
            "1 while the authentication configuration in use is that of the file, else 0.",
            registry=None,
        )

    def show(self, registry: CollectorRegistry) -> None:
        for metric in (self.refused, self.fetched, self.reloads, self.good):
            registry.register(metric)
