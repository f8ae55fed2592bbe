"""The data directory: everything that a hub on one machine keeps. Its first start makes it (fleet/hub/firststart.py).

    pki/ca.{crt,key}  pki/server.{crt,key}  pki/service-account.key
    pki/local.{crt,key}  the hub's own certificate, where pki/server.crt is one of somebody else (serving.py)
    secrets.key       encrypts Secret objects in the database; the store makes and rotates it
    tokens.csv        token,user,uid,"group,group",end: the administrator's; those of others are in the database
    kubeconfig        what kubectl needs, administrator's token inside
    hub-id            what the hub signs its objects in members with
    postgres/         the embedded database
    members/          of simulated members: kubeconfigs, objects, what they serve with and have their identities of
    logs/             one file a process
    lock              held by the running `fleet up`, names its pid

Nothing in the directory may be read by any user but the owner.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

from fleet.cli.failure import Failure

ENV_DATA_DIR = "FLEET_DATA_DIR"


@dataclass(frozen=True)
class DataDir:
    """Paths inside one data directory."""

    root: Path

    @property
    def ca_certificate(self) -> Path:
        return self.root / "pki" / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.root / "pki" / "ca.key"

    @property
    def server_certificate(self) -> Path:
        return self.root / "pki" / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.root / "pki" / "server.key"

    @property
    def local_certificate(self) -> Path:
        """The hub's own, where `server_certificate` is not."""
        return self.root / "pki" / "local.crt"

    @property
    def local_key(self) -> Path:
        return self.root / "pki" / "local.key"

    @property
    def service_account_key(self) -> Path:
        return self.root / "pki" / "service-account.key"

    @property
    def secrets_key(self) -> Path:
        return self.root / "secrets.key"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens.csv"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def hub_id_file(self) -> Path:
        return self.root / "hub-id"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def members(self) -> Path:
        return self.root / "members"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def identity_files(self) -> tuple[Path, ...]:
        """The files without which the hub would be another one: for backups."""
        pki = (self.ca_certificate, self.ca_key, self.server_certificate, self.server_key, self.service_account_key)
        return (self.hub_id_file, self.secrets_key, self.tokens, *pki)

    @property
    def hub_id(self) -> str:
        self.need()
        return self.hub_id_file.read_text().strip()

    def need(self) -> None:
        """Raises Failure where there is no data directory of a hub."""
        if not self.hub_id_file.exists():
            raise Failure(
                f"{self.root} is no data directory of a hub: give --data-dir (its first start makes it: fleet up)"
            )

    def admin_token(self) -> str:
        """The administrator's token: the first line of tokens.csv."""
        with self.tokens.open(newline="") as lines:
            for row in csv.reader(lines):
                if row:
                    return row[0]
        raise Failure(f"{self.tokens} holds no token")


def locate(data_dir: Path | None) -> DataDir:
    """`--data-dir`, else FLEET_DATA_DIR, else ~/.fleet."""
    chosen = data_dir or os.environ.get(ENV_DATA_DIR) or Path.home() / ".fleet"
    return DataDir(Path(chosen).expanduser().absolute())
