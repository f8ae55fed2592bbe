"""The options of the API about its users and its own requests. `fleet up` hands them on to its API process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from fleet.outgoing.allowed import Allowed

AuthenticationOption = Annotated[
    Path | None,
    typer.Option(
        "--authentication-config",
        help="AuthenticationConfiguration (YAML) with the issuers of ID tokens (OIDC); read again when it changes.",
    ),
]
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
    authentication_config: Path | None = None
    outgoing_allow: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """The options, for the command line of an API process."""
        files = {"--client-ca-file": self.client_ca, "--authentication-config": self.authentication_config}
        words = [word for name, path in files.items() if path is not None for word in (name, str(path.absolute()))]
        return [*words, *(word for entry in self.outgoing_allow for word in ("--outgoing-allow", entry))]

    def authorities(self, own: Path) -> tuple[Path, ...]:
        """The files of the authorities whose client certificates are credentials; `own`: that of the hub."""
        return tuple(path for path in (own, self.client_ca) if path is not None and path.exists())

    def allowed(self) -> Allowed:
        """What the hub's own requests may reach besides public addresses. Raises Failure."""
        from fleet.outgoing.allowed import Allowed

        try:
            return Allowed.parse(self.outgoing_allow)
        except ValueError as error:
            raise Failure(f"--outgoing-allow {error}") from error

    def check(self) -> None:
        """Raises Failure where an option cannot be used, so that no process begins with it."""
        self.allowed()
        if self.client_ca is not None:
            _check_certificates(self.client_ca)
        if self.authentication_config is not None:
            _check_configuration(self.authentication_config)


def _check_certificates(path: Path) -> None:
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise Failure(f"--client-ca-file {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise Failure(f"--client-ca-file {path}: no certificates in PEM") from error


def _check_configuration(path: Path) -> None:
    from api.auth import ISSUER
    from api.oidc.config import parse
    from fleet.model.sections import BadConfiguration

    try:
        parse(path.read_bytes(), own_issuers=(ISSUER,))
    except OSError as error:
        raise Failure(f"--authentication-config {path}: {error.strerror or error}") from error
    except BadConfiguration as error:
        raise Failure(f"--authentication-config {path}: {error}") from error
