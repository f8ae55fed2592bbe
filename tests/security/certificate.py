"""A certificate for 127.0.0.1 that is its own authority, and client certificates of that authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def key_pem(key: ec.EllipticCurvePrivateKey | None = None) -> bytes:
    """A private key as PEM, a new one where none is given."""
    return (key or ec.generate_private_key(ec.SECP256R1())).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def self_signed(folder: Path) -> tuple[Path, Path]:
    """(certificate, key) as files in the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=36500))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "tls.crt", folder / "tls.key"
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(key_pem(key))
    return cert_path, key_path


def client_certificate(
    folder: Path,
    name: str = "ann",
    groups: tuple[str, ...] = (),
    *,
    authority: Path | None = None,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
    begins: datetime | None = None,
    ends: datetime | None = None,
    more: tuple[x509.NameAttribute[str], ...] = (),
) -> tuple[Path, Path]:
    """(certificate, key) of a client as files in the folder, signed by the authority of `self_signed` in `authority`,
    which is the same folder where none is given."""
    where = authority or folder
    issuer = x509.load_pem_x509_certificate((where / "tls.crt").read_bytes())
    signer = serialization.load_pem_private_key((where / "tls.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    named = [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
    subject = x509.Name([*(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups), *named, *more])
    begins, ends = begins or datetime(2020, 1, 1, tzinfo=UTC), ends or datetime(2100, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder(issuer.subject, subject, key.public_key(), x509.random_serial_number(), begins, ends)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    path = folder / f"client-{made.serial_number}.crt"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(key_pem(key))
    return path, path.with_suffix(".key")
