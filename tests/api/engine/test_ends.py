"""When the credentials of a kubeconfig end."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.kubeconfig.ends import ends

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def certificate(end: datetime) -> bytes:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ann")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(BEGAN)
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM)


def user(pem: bytes) -> dict[str, str]:
    return {"client-certificate-data": base64.b64encode(pem).decode()}


# In 2050 the form of times in certificates changes.
@pytest.mark.parametrize("days", [1, 366 * 23, 366 * 24, 366 * 100])
def test_a_client_certificate_ends_when_it_says(days: int) -> None:
    end = BEGAN + timedelta(days=days, seconds=5)
    assert ends(user(b"# a comment\n" + certificate(end))) == {"client certificate": end.timestamp()}


@pytest.mark.parametrize("pem", [b"none", b"-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----"])
def test_what_is_no_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(BadKubeconfig, match="client-certificate-data: no usable certificate"):
        ends(user(pem))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 20, 60, 100])
def test_a_certificate_that_is_cut_off_is_refused(size: int) -> None:
    whole = ssl.PEM_cert_to_DER_cert(certificate(BEGAN + timedelta(1)).decode())
    with pytest.raises(BadKubeconfig, match="client-certificate-data: no usable certificate"):
        ends(user(ssl.DER_cert_to_PEM_cert(whole[:size]).encode()))


@pytest.mark.parametrize("exp", ["1e300", "Infinity", "NaN", "1" + "0" * 400, '"soon"', "null"])
def test_a_token_whose_end_no_calendar_has_names_none(exp: str) -> None:
    middle = base64.urlsafe_b64encode(f'{{"exp": {exp}}}'.encode()).decode().rstrip("=")
    assert ends({"token": f"a.{middle}.c"}) == {}
