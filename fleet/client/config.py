"""Where the hub is and how its user proves herself: given, from kubeconfigs, or from the pod that a program runs in."""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.client.errors import BadConfiguration

if TYPE_CHECKING:
    from fleet.values.kubeconfig.files import Access as Found
    from fleet.values.kubeconfig.files import Credential

ENV_KUBECONFIG, ENV_DATA_DIR = "FLEET_KUBECONFIG", "FLEET_DATA_DIR"
ENV_TOKEN = "FLEET_TOKEN"  # in place of the credentials of the kubeconfig's user
OWN_VERSION = "-fleet."  # in what /version of a hub says
POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Access:
    """How to reach the hub. `credentials`: the value of the Authorization header, which is asked for at each request;
    `sure`: nothing but a hub can be there."""

    server: str
    tls: ssl.SSLContext
    credentials: Callable[[], str]
    namespace: str = "default"
    server_name: str = ""
    sure: bool = True


def access(
    *,
    kubeconfig: str | Path | None,
    data_dir: str | Path | None,
    context: str | None,
    server: str | None,
    token: str | Callable[[], str] | None,
    ca: str | Path | bytes | None,
) -> Access:
    """The access that the arguments, or the environment, name. Raises BadConfiguration."""
    token = token or os.environ.get(ENV_TOKEN) or None
    if server is not None:
        return _given(server, token, ca)
    files, sure = kubeconfig_files(kubeconfig, data_dir, context, os.environ)
    there = [path for path in files if path.exists()]
    if there:
        return _of_files(there, context, sure, token)
    if kubeconfig is None and data_dir is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _of_pod()
    raise BadConfiguration(
        f"no hub found: {os.pathsep.join(map(str, files))} does not exist"
        " (is `fleet up` running? else give kubeconfig=, data_dir=, or server= and token=)"
    )


def kubeconfig_files(
    kubeconfig: str | Path | None, data_dir: str | Path | None, context: str | None, environ: Mapping[str, str]
) -> tuple[list[Path], bool]:
    """The files that say where the hub is, and whether they can only be a hub's: those of a data directory.

    A given value wins over the environment, and a kubeconfig that the environment names over a data directory. Where
    nothing is named, the default data directory wins over ~/.kube/config, which mostly is of another cluster."""
    named = environ.get(ENV_KUBECONFIG)
    if kubeconfig is not None or (data_dir is None and named):
        return [Path(kubeconfig or named or "").expanduser()], False
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if data_dir is None and listed:
        return listed, False
    given = data_dir or environ.get(ENV_DATA_DIR)
    own = Path(given or Path.home() / ".fleet").expanduser().absolute() / "kubeconfig"
    theirs = Path.home() / ".kube" / "config"
    if given or not theirs.exists():
        return [own], True
    return ([own], True) if own.exists() and not context else ([theirs], False)


def _bearer(token: str | Callable[[], str] | None) -> Callable[[], str]:
    """The header of a token, read at each request."""
    read = token if callable(token) else lambda: str(token or "")

    def credentials() -> str:
        now = read()
        return f"Bearer {now}" if now else ""

    return credentials


def _given(server: str, token: str | Callable[[], str] | None, ca: str | Path | bytes | None) -> Access:
    try:
        if isinstance(ca, bytes):
            tls = ssl.create_default_context(cadata=ca.decode())
        else:
            tls = ssl.create_default_context(cafile=str(Path(ca).expanduser()) if ca is not None else None)
    except (OSError, ValueError) as error:
        raise BadConfiguration(f"ca: certificates cannot be read: {error}") from error
    return Access(_https(server), tls, _bearer(token))


def _of_files(files: Sequence[Path], context: str | None, sure: bool, token: str | Callable[[], str] | None) -> Access:
    from fleet.values.kubeconfig.document import BadKubeconfig
    from fleet.values.kubeconfig.files import load
    from fleet.values.kubeconfig.tls import context as context_of

    try:
        kubeconfig = load(files, context=context, programs=True, token="given" if token else "")
        credential = _credential_of(kubeconfig)
        tls = context_of(kubeconfig, credential())
    except BadKubeconfig as error:
        raise BadConfiguration(str(error)) from error

    def credentials() -> str:
        try:
            return credential().authorization
        except BadKubeconfig as error:
            raise BadConfiguration(str(error)) from error

    return Access(
        _https(kubeconfig.server),
        tls,
        _bearer(token) if token else credentials,
        kubeconfig.namespace,
        kubeconfig.server_name,
        sure,
    )


def _credential_of(kubeconfig: Found) -> Callable[[], Credential]:
    """The credential of now: that of a program is asked for anew when it ends."""
    if kubeconfig.program is None:
        own = kubeconfig.credential
        return lambda: own
    from fleet.values.kubeconfig.program import ProgramCredential

    program, one_at_a_time = ProgramCredential(kubeconfig.program), threading.Lock()

    def credential() -> Credential:
        with one_at_a_time:
            return program.credential(time.time())

    return credential


def _of_pod() -> Access:
    """The service account of this pod, whose token is renewed in its file."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")

    def token() -> str:
        try:
            return (POD_ACCOUNT / "token").read_text().strip()
        except OSError as error:
            raise BadConfiguration(f"service account of this pod: {error}") from error

    try:
        tls = ssl.create_default_context(cafile=str(POD_ACCOUNT / "ca.crt"))
        namespace = (POD_ACCOUNT / "namespace").read_text().strip()
    except (OSError, ValueError) as error:
        raise BadConfiguration(f"service account of this pod: {error}") from error
    if not token():
        raise BadConfiguration("service account of this pod: its token is empty")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Access(server, tls, _bearer(token), namespace or "default", sure=False)


def _https(server: str) -> str:
    if not server.startswith("https://"):
        raise BadConfiguration(f"{server}: a hub is reached over https:// alone")
    return server.rstrip("/")
