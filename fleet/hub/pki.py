"""Keys and certificates of a hub: its own CA, one server certificate from it, and the keys that never leave it.

All keys are EC P-256: made in a millisecond, taken by every client. The server certificate is made anew when it does
not name the address that is served, or is about to expire; clients trust the CA, so they do not notice.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleet.values.files import write_private as write_private

CA_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
CLOCK_SKEW = timedelta(hours=1)


def new_key() -> bytes:
    """A new EC P-256 private key, as PKCS#8 PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an EC key")
    return key


def make_ca(certificate: Path, key: Path, *, now: datetime) -> None:
    """Write a new self-signed CA."""
    pem = new_key()
    private = _load_key(pem)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleet-ca")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .sign(private, hashes.SHA256())
    )
    write_private(key, pem)
    write_private(certificate, built.public_bytes(serialization.Encoding.PEM))


def _san(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def signed_by(certificate: Path, ca: Path) -> bool:
    """Whether this CA has signed the certificate. ValueError or OSError where one of them cannot be read."""
    issued, issuer = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (certificate, ca))
    try:
        issued.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def flaws(certificate: Path, hosts: list[str], *, now: datetime) -> list[str]:
    """Why the certificate does not serve `hosts`, or soon will not; empty where it does."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError):
        return ["it cannot be read"]
    except x509.ExtensionNotFound:
        return ["it names no host"]
    missing = [host for host in hosts if not _names(names, host)]
    until = loaded.not_valid_after_utc
    found = [f"it does not name {', '.join(missing)}"] if missing else []
    return found + ([f"it ends on {until:%Y-%m-%d %H:%M} UTC"] if until <= now + RENEW_BEFORE else [])


def _names(names: x509.SubjectAlternativeName, host: str) -> bool:
    """Whether one of the names is the host, or a wildcard for it."""
    return _san(host) in names or _san(f"*.{host.partition('.')[2]}") in names


def make_server_certificate(
    ca_certificate: Path, ca_key: Path, certificate: Path, key: Path, hosts: list[str], *, now: datetime
) -> None:
    """Write a server certificate for `hosts` (names and IP addresses), signed by the CA, and its key."""
    issuer = x509.load_pem_x509_certificate(ca_certificate.read_bytes())
    pem = new_key()
    public = _load_key(pem).public_key()
    signer = _load_key(ca_key.read_bytes())
    built = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fleet-hub")]))
        .issuer_name(issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + SERVER_LIFE)
        .add_extension(x509.SubjectAlternativeName([_san(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    write_private(key, pem)
    write_private(certificate, built.public_bytes(serialization.Encoding.PEM))


def utcnow() -> datetime:
    """The wall clock, for the commands that make certificates."""
    return datetime.now(UTC)  # noqa: TID251  # the edge where time enters
