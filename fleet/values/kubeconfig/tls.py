"""TLS towards the API server of a kubeconfig."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile

from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.kubeconfig.files import Access, Credential


def context(access: Access, credential: Credential) -> ssl.SSLContext:
    """The checks of the server's certificate, and the client's certificate. Raises BadKubeconfig."""
    try:
        ssl_context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        if access.insecure:
            ssl_context.check_hostname = False
            ssl_context.verify_mode = ssl.CERT_NONE
        if credential.certificate and credential.key:
            load_pair(ssl_context, credential.certificate, credential.key)
    except (ssl.SSLError, ValueError) as error:
        raise BadKubeconfig("", f"certificates of {access.server} cannot be used: {error}") from error
    return ssl_context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python takes a client certificate only from a file: a private one that is gone again at once."""
    descriptor, name = tempfile.mkstemp(prefix="fleet-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate.rstrip() + b"\n" + key)
        context.load_cert_chain(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108
