"""One certificate authority for a whole test bed, and the identities that its processes use.

The CA key is RSA in PKCS#1, since the training operator reuses it for its webhook and takes nothing else.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

ADMIN, CONTROLLER_MANAGER, SCHEDULER = "admin-token", "controller-manager-token", "scheduler-token"
# The operators replace an authority that does not carry these names, and a certificate without their Service's.
AUTHORITY_NAMES = ("training-operator-ca", "kubeflow-trainer-ca", "kueue-ca")
SERVER_NAMES = (
    "localhost",
    "kubernetes.default.svc",
    "training-operator.kubeflow.svc",
    "kubeflow-trainer-controller-manager.kubeflow-system.svc",
    "kueue-webhook-service.kueue-system.svc",
)
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")


@dataclass(frozen=True)
class Pki:
    """The files of the authority, in one folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def ca_key(self) -> Path:
        return self.folder / "ca.key"

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        return self.folder / "tls.key"

    @property
    def accounts_private(self) -> Path:
        return self.folder / "sa.key"

    @property
    def accounts_public(self) -> Path:
        return self.folder / "sa.pub"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"


def make_pki(folder: Path) -> Pki:
    """Write a new authority, a server certificate, the service-account key pair and the token file into `folder`."""
    folder.mkdir(parents=True)
    pki = Pki(folder)
    ca_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    ca_name = _name("fleet-testbed-ca")
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_signing_usage(), critical=True)
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, AUTHORITY_NAMES))), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
    certificate = (
        _builder(_name("kube-apiserver"), ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    accounts = ec.generate_private_key(ec.SECP256R1())
    pki.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    pki.ca_key.write_bytes(_private(ca_key, serialization.PrivateFormat.TraditionalOpenSSL))
    pki.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pki.key.write_bytes(_private(key, serialization.PrivateFormat.PKCS8))
    pki.accounts_private.write_bytes(_private(accounts, serialization.PrivateFormat.PKCS8))
    pki.accounts_public.write_bytes(
        accounts.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    pki.tokens.write_text(
        f'{ADMIN},admin,1,"system:masters"\n'
        f"{CONTROLLER_MANAGER},system:kube-controller-manager,2\n"
        f"{SCHEDULER},system:kube-scheduler,3\n"
    )
    return pki


def _signing_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _private(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
