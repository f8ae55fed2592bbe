"""The certificates that the hub shows to clients and checks theirs with: when they end, for doctor and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.cli.datadir import DataDir

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

CA, SERVER, CLIENT = "the hub's CA", "the server", "a client authority"


@dataclass(frozen=True, slots=True)
class CertificateFile:
    """`until`: its end, in epoch seconds."""

    name: str
    file: Path
    until: float


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files are read at each question, since they are renewed beside the process. `authorities`: the files that
    clients' certificates are checked with. `served`: the one that is shown, where it is not that of the directory."""

    data: DataDir
    authorities: Sequence[Path]
    served: Path | None = None

    def read(self) -> list[CertificateFile]:
        named = {CA: [self.data.ca_certificate], SERVER: [self.served or self.data.server_certificate]}
        named[CLIENT] = [path for path in self.authorities if path != self.data.ca_certificate]
        return [
            CertificateFile(name, path, until)
            for name, paths in named.items()
            for path in paths
            for until in _ends(path)
        ]

    def show(self, registry: CollectorRegistry) -> None:
        """Tell the first end of each in the metrics."""
        registry.register(_Collector(self))


@dataclass(frozen=True, slots=True, eq=False)
class _Collector:
    certificates: Certificates

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(
            "fleet_api_certificate_expiry_timestamp_seconds",
            "When a certificate of the hub ends, in epoch seconds.",
            labels=["certificate"],
        )
        found = self.certificates.read()
        for name, label in ((CA, "ca"), (SERVER, "server"), (CLIENT, "client_authority")):
            ends = [one.until for one in found if one.name == name]
            if ends:
                family.add_metric([label], min(ends))
        yield family


def _ends(path: Path) -> list[float]:
    """The ends of the certificates in a file; none for a file that holds none."""
    from cryptography import x509

    try:
        return [found.not_valid_after_utc.timestamp() for found in x509.load_pem_x509_certificates(path.read_bytes())]
    except (OSError, ValueError):
        return []
