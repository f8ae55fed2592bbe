"""Requests for the signature of a client certificate."""

from __future__ import annotations

from base64 import b64encode

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from api.admission.signing import GROUP, RESOURCE

PATH = f"/apis/{GROUP}/v1/{RESOURCE}"


def request(key: ec.EllipticCurvePrivateKey | None = None, name: str = "ann", groups: tuple[str, ...] = ()) -> str:
    """A PEM request, as the API takes it."""
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    key = key or ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder(subject).sign(key, hashes.SHA256())
    return b64encode(made.public_bytes(Encoding.PEM)).decode()
