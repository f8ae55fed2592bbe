"""A file of certificates that an option names."""

from __future__ import annotations

import ssl
from pathlib import Path

from fleet.cli.failure import Failure


def certificates_in(path: Path, option: str) -> bytes:
    """The certificates (PEM) in the file. Raises Failure."""
    try:
        content = path.read_bytes()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode())
    except (ssl.SSLError, ValueError) as error:
        raise Failure(f"{option} {path}: no certificates in PEM") from error
    except OSError as error:
        raise Failure(f"{option} {path}: {error.strerror or error}") from error
    return content
