"""When the certificates of the hub end, in its metrics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry

from fleet.cli.datadir import DataDir
from fleet.hub import pki
from fleet.hub.certificates import Certificates

NOW = datetime(2027, 1, 15, tzinfo=UTC)
DAY_S = 86_400
METRIC = "fleet_api_certificate_expiry_timestamp_seconds"


def authority(folder: Path, name: str, days_left: int) -> Path:
    made = folder / f"{name}.crt"
    pki.make_ca(made, folder / f"{name}.key", now=NOW - pki.CA_LIFE + timedelta(days=days_left))
    return made


def test_the_first_end_of_each_kind_of_certificate_is_told_and_a_renewed_file_is_read(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "hub")
    data.ca_certificate.parent.mkdir(parents=True)
    own = authority(data.ca_certificate.parent, data.ca_certificate.stem, 100)
    assert own == data.ca_certificate
    clients = [own, authority(tmp_path, "one", 9), authority(tmp_path, "two", 7), tmp_path / "gone.crt"]
    registry = CollectorRegistry()
    Certificates(data, clients).show(registry)

    def days(name: str) -> float | None:
        value = registry.get_sample_value(METRIC, {"certificate": name})
        return None if value is None else (value - NOW.timestamp()) / DAY_S

    assert (days("ca"), days("client_authority"), days("server")) == (100, 7, None)
    for name in ("one", "two"):
        (tmp_path / f"{name}.key").unlink()
        authority(tmp_path, name, 50)
    assert days("client_authority") == 50
