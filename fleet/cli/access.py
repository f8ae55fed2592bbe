"""The options of the API that say who its users are. `fleet up` hands them on to its API process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.failure import Failure

ClientCaOption = Annotated[
    Path | None,
    typer.Option(
        "--client-ca-file",
        help="Certificates (PEM) of authorities whose client certificates are credentials, beside the hub's own CA.",
    ),
]


@dataclass(frozen=True)
class Access:
    """The options of one hub."""

    client_ca: Path | None = None

    def words(self) -> list[str]:
        """The options, for the command line of an API process."""
        return ["--client-ca-file", str(self.client_ca.absolute())] if self.client_ca is not None else []

    def check(self) -> None:
        """Raises Failure where a file cannot be used, so that no process begins with it."""
        if self.client_ca is not None:
            _check_certificates(self.client_ca)


def _check_certificates(path: Path) -> None:
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise Failure(f"--client-ca-file {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise Failure(f"--client-ca-file {path}: no certificates in PEM") from error
