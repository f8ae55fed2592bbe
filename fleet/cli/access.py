"""The options of the API about its users, its own requests and its audit log. `fleet up` hands them on to its API
process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import OutgoingOption

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
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--audit-policy-file", help="Policy of the audit log (audit.k8s.io/v1); read at the start. Without it: no log."
    ),
]
LogPathOption = Annotated[
    str | None,
    typer.Option("--audit-log-path", metavar="PATH", help="File for the audit log, one event a line; -: stdout."),
]
MaxSizeOption = Annotated[
    int, typer.Option("--audit-log-maxsize", min=0, help="Megabytes after which the audit log is rotated; 0: never.")
]
MaxBackupOption = Annotated[
    int, typer.Option("--audit-log-maxbackup", min=0, help="Rotated audit logs to keep; 0: all.")
]
MaxAgeOption = Annotated[
    int, typer.Option("--audit-log-maxage", min=0, help="Days for which rotated audit logs are kept; 0: for ever.")
]
WebhookOption = Annotated[
    Path | None,
    typer.Option("--audit-webhook-config-file", help="Kubeconfig of a server that audit events are sent to."),
]


@dataclass(frozen=True)
class Access:
    """The options of one hub. Each field is the option of its name."""

    client_ca_file: ClientCaOption = None
    authentication_config: AuthenticationOption = None
    outgoing_allow: OutgoingOption = None
    audit_policy_file: PolicyOption = None
    audit_log_path: LogPathOption = None
    audit_log_maxsize: MaxSizeOption = 100
    audit_log_maxbackup: MaxBackupOption = 100
    audit_log_maxage: MaxAgeOption = 366
    audit_webhook_config_file: WebhookOption = None

    def words(self) -> list[str]:
        """The options, for the command line of an API process."""
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            if field.name == "audit_log_path" and value != "-":
                value = Path(value)
            name = f"--{field.name.replace('_', '-')}"
            for item in value if isinstance(value, list) else [value]:
                words += [name, str(item.absolute() if isinstance(item, Path) else item)]
        return words

    def authorities(self, own: Path) -> tuple[Path, ...]:
        """The files of the authorities whose client certificates are credentials; `own`: that of the hub."""
        return tuple(path for path in (own, self.client_ca_file) if path is not None and path.exists())

    def allowed(self) -> Allowed:
        """What the hub's own requests may reach besides public addresses. Raises Failure."""
        from fleet.outgoing.allowed import Allowed

        try:
            return Allowed.parse(self.outgoing_allow or ())
        except ValueError as error:
            raise Failure(f"--outgoing-allow {error}") from error

    def check(self) -> None:
        """Raises Failure where an option cannot be used, so that no process begins with it."""
        from fleet.cli import audit

        self.allowed()
        if self.client_ca_file is not None:
            _check_certificates(self.client_ca_file)
        if self.authentication_config is not None:
            _check_configuration(self.authentication_config)
        audit.check(self)


def takes_access(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every option of Access, in place of its parameter `access`."""
    own = inspect.signature(command, eval_str=True)
    given = inspect.signature(Access, eval_str=True).parameters

    def run(**values: Any) -> None:
        access = Access(**{name: values.pop(name) for name in given})
        command(**values, access=access)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*(one for one in own.parameters.values() if one.name != "access"), *given.values())
    ]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


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
