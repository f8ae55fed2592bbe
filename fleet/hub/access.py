"""The options of the API about its users, its own requests and its audit log. `fleet up` hands them on to its API
process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.certificatefile import certificates_in
from fleet.cli.failure import Failure
from fleet.cli.options import OutgoingOption
from fleet.hub.serving import CertificateOption, KeyOption, ServingOptions

if TYPE_CHECKING:
    from api.access.oidc.config import Issuer
    from api.outgoing.allowlist import AllowList
    from fleet.console.login import IssuerClient

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
IssuerOption = Annotated[
    str | None, typer.Option("--oidc-issuer-url", metavar="URL", help="Issuer of ID tokens, in place of the file.")
]
ClientIdOption = Annotated[str | None, typer.Option("--oidc-client-id", help="Audience that its tokens must have.")]
UsernameClaimOption = Annotated[str, typer.Option("--oidc-username-claim", help="Claim with the name of the user.")]
UsernamePrefixOption = Annotated[
    str | None, typer.Option("--oidc-username-prefix", help="Before each name (default: URL#; none for email).")
]
GroupsClaimOption = Annotated[
    str | None, typer.Option("--oidc-groups-claim", help="Claim with the groups of the user.")
]
GroupsPrefixOption = Annotated[str | None, typer.Option("--oidc-groups-prefix", help="Before each group.")]
IssuerCaOption = Annotated[
    Path | None, typer.Option("--oidc-ca-file", help="Certificates (PEM) of the authorities of the issuer.")
]
RequiredClaimOption = Annotated[
    list[str] | None,
    typer.Option("--oidc-required-claim", metavar="CLAIM=VALUE", help="A claim that tokens must have; repeatable."),
]
SigningAlgsOption = Annotated[
    str, typer.Option("--oidc-signing-algs", help="Algorithms of its signatures, separated by commas.")
]
ClientSecretOption = Annotated[
    Path | None,
    typer.Option(
        "--oidc-client-secret-file", help="Secret of the client, for logins to the console; read at the start."
    ),
]
RedirectOption = Annotated[
    str | None,
    typer.Option(
        "--oidc-redirect-url",
        metavar="URL",
        help="Where the issuer sends browsers back to (default: https://HOST/console/callback, as they name the hub).",
    ),
]
ConsoleOption = Annotated[bool, typer.Option("--console/--no-console", help="Serve the web console at /console.")]


@dataclass(frozen=True)
class AccessOptions:
    """The options of one hub. Each field is the option of its name."""

    client_ca_file: ClientCaOption = None
    authentication_config: AuthenticationOption = None
    outgoing_allow: OutgoingOption = None
    oidc_issuer_url: IssuerOption = None
    oidc_client_id: ClientIdOption = None
    oidc_username_claim: UsernameClaimOption = "sub"
    oidc_username_prefix: UsernamePrefixOption = None
    oidc_groups_claim: GroupsClaimOption = None
    oidc_groups_prefix: GroupsPrefixOption = None
    oidc_ca_file: IssuerCaOption = None
    oidc_required_claim: RequiredClaimOption = None
    oidc_signing_algs: SigningAlgsOption = "RS256"
    oidc_client_secret_file: ClientSecretOption = None
    oidc_redirect_url: RedirectOption = None
    console: ConsoleOption = True
    audit_policy_file: PolicyOption = None
    audit_log_path: LogPathOption = None
    audit_log_maxsize: MaxSizeOption = 100
    audit_log_maxbackup: MaxBackupOption = 100
    audit_log_maxage: MaxAgeOption = 366
    audit_webhook_config_file: WebhookOption = None
    tls_cert_file: CertificateOption = None
    tls_private_key_file: KeyOption = None

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
            if isinstance(value, bool):
                words.append(name if value else f"--no-{name[2:]}")
                continue
            for item in value if isinstance(value, list) else [value]:
                words += [name, str(item.absolute() if isinstance(item, Path) else item)]
        return words

    @property
    def certificate(self) -> ServingOptions:
        """The certificate to serve with."""
        return ServingOptions(self.tls_cert_file, self.tls_private_key_file)

    def issuers(self) -> tuple[Issuer, ...]:
        """The issuer that flags name; none without them. Raises Failure."""
        from api.access.auth import ISSUER
        from api.access.oidc.flags import Flags, issuers
        from fleet.values.sections import BadConfiguration

        if all(getattr(self, field.name) == field.default for field in fields(self) if field.name[:5] == "oidc_"):
            return ()
        if self.authentication_config is not None:
            raise Failure("--authentication-config and the flags --oidc-… exclude each other")
        try:
            ca = self.oidc_ca_file.read_text("ascii") if self.oidc_ca_file is not None else ""
            flags = Flags(
                self.oidc_issuer_url or "",
                self.oidc_client_id or "",
                self.oidc_username_claim,
                self.oidc_username_prefix or "",
                self.oidc_groups_claim or "",
                self.oidc_groups_prefix or "",
                ca,
                tuple(self.oidc_required_claim or ()),
                tuple(filter(None, self.oidc_signing_algs.split(","))),
            )
            return issuers(flags, own_issuers=(ISSUER,))
        except OSError as error:
            raise Failure(f"--oidc-ca-file {self.oidc_ca_file}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise Failure(f"--oidc-ca-file {self.oidc_ca_file}: no certificates in PEM") from error
        except BadConfiguration as error:
            raise Failure(str(error)) from error

    def client(self) -> IssuerClient | None:
        """The hub as a client of the issuer that flags name; None without one. Raises Failure."""
        from fleet.console.login import CALLBACK, IssuerClient

        issuers = self.issuers()
        if not issuers:
            return None
        url, secret = self.oidc_redirect_url or "", ""
        if url and not (url.startswith("https://") and url.isprintable() and url.endswith(CALLBACK)):
            raise Failure(f"--oidc-redirect-url {url}: not https://HOST{CALLBACK}")
        if self.oidc_client_secret_file is not None:
            try:
                secret = self.oidc_client_secret_file.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or "no text"
                raise Failure(f"--oidc-client-secret-file {self.oidc_client_secret_file}: {why}") from error
        source = issuers[0].source
        return IssuerClient(source.url, self.oidc_client_id or "", secret, url, source.certificate_authority)

    def authorities(self, own: Path) -> tuple[Path, ...]:
        """The files of the authorities whose client certificates are credentials; `own`: that of the hub."""
        return tuple(path for path in (own, self.client_ca_file) if path is not None and path.exists())

    def allowed(self) -> AllowList:
        """What the hub's own requests may reach besides public addresses. Raises Failure."""
        from api.outgoing.allowlist import AllowList

        try:
            return AllowList.parse(self.outgoing_allow or ())
        except ValueError as error:
            raise Failure(f"--outgoing-allow {error}") from error

    def check(self) -> None:
        """Raises Failure where an option cannot be used, so that no process begins with it."""
        from fleet.hub import audit

        self.allowed()
        self.certificate.check()
        if self.client_ca_file is not None:
            certificates_in(self.client_ca_file, "--client-ca-file")
        if self.console:
            self.client()
        self.issuers()
        if self.authentication_config is not None:
            _check_configuration(self.authentication_config)
        audit.check(self)


def takes_access(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command every option of AccessOptions, in place of its parameter `access`."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(AccessOptions, eval_str=True).parameters

    def run(**values: Any) -> None:
        access = AccessOptions(**{name: values.pop(name) for name in options})
        command(**values, access=access)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*(one for one in own.parameters.values() if one.name != "access"), *options.values())
    ]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _check_configuration(path: Path) -> None:
    from api.access.auth import ISSUER
    from api.access.oidc.config import parse
    from fleet.values.sections import BadConfiguration

    try:
        parse(path.read_bytes(), own_issuers=(ISSUER,))
    except OSError as error:
        raise Failure(f"--authentication-config {path}: {error.strerror or error}") from error
    except BadConfiguration as error:
        raise Failure(f"--authentication-config {path}: {error}") from error
