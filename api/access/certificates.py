"""Client certificates as credentials: the name of the subject is the user, its organisations are the groups.

TLS has checked the chain and the key when the connection began. Only the time of a certificate can run out after that.
"""

from __future__ import annotations

import hashlib
import ssl
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from api.access.auth import AUTHENTICATED, CREDENTIAL
from api.objects.writing import User

SCOPE = "fleet.certificate"  # where the server puts the certificate of a request's connection
UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


class PeerCertificate:
    """The certificate that a client has shown, read when somebody asks."""

    def __init__(self, der: bytes) -> None:
        self.der = der

    def user(self, now: float) -> User | None:
        """The user at this time (epoch seconds); None before and after the certificate's time, and without a name."""
        begins, ends, user = self._read
        return user if begins <= now <= ends else None

    @cached_property
    def _read(self) -> tuple[float, float, User | None]:
        try:
            certificate = x509.load_der_x509_certificate(self.der)
            names = _texts(certificate.subject, NameOID.COMMON_NAME)
            groups = _texts(certificate.subject, NameOID.ORGANIZATION_NAME)
            uids = _texts(certificate.subject, UID)
            begins, ends = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
        except ValueError:  # a form that OpenSSL takes and the reader does not
            return 0.0, 0.0, None
        if not names or not names[-1] or len(uids) > 1 or uids == [""]:
            return begins, ends, None
        extra = ((CREDENTIAL, (f"X509SHA256={hashlib.sha256(self.der).hexdigest()}",)),)
        known = tuple(dict.fromkeys((*filter(None, groups), AUTHENTICATED)))
        return begins, ends, User(names[-1], known, "".join(uids), extra=extra)


def _texts(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in name.get_attributes_for_oid(oid)]


def ask_for_certificates(context: ssl.SSLContext, authorities: tuple[Path, ...]) -> None:
    """Have a server ask each client for a certificate of these authorities. A client may show none; one that shows a
    certificate of another authority gets no connection."""
    for path in authorities:
        context.load_verify_locations(path)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Go: an authority need not be a root
