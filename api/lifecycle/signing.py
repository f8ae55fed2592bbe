"""Certificates for approved CertificateSigningRequests, and the end of requests that are done or forgotten.

The hub signs for one signer, `kubernetes.io/kube-apiserver-client`, with its own CA: the certificates are credentials
of the hub. Requests for other signers wait for a signer of somebody else's.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from api.admission.signing import APPROVED, CLIENT_SIGNER, DENIED, FAILED, GROUP, RESOURCE, of_type, request_of
from api.lifecycle.authority import Authority
from api.loops.controller import Controller, Source
from api.objects.objects import Objects
from api.objects.writing import Options
from fleet.values.ports import Body, Key
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import at, mapping, rows

DONE_S, FORGOTTEN_S = 3600.0, 86_400.0  # requests that were answered, and requests that nobody has answered
LIFE_MAX_S, LIFE_MIN_S = 365 * 86_400, 600
BACKDATED = timedelta(minutes=5)
_OPTIONAL_USAGES = {"digital signature", "key encipherment"}


class SigningLoop:
    """A Loop."""

    name = "signing"

    def __init__(self, objects: Objects, options: Options, authority: Authority | None) -> None:
        self._objects, self._options, self._authority = objects, options, authority
        self.controller = Controller(self.name, objects.store, [Source(GROUP, RESOURCE)], self._reconcile, workers=1)

    async def run(self) -> None:
        await self.controller.run()

    async def _reconcile(self, key: Key) -> float | None:
        stored = await self._objects.store.get(key)
        if stored is None:
            return None
        now, kind = self._objects.clock.now(), self._objects.registry.need(GROUP, RESOURCE)
        remaining_s = _ends(stored.body) - now
        if remaining_s <= 0:
            await self._objects.delete(kind, "", key.name, self._options, {"preconditions": {"uid": stored.uid}})
            return None
        if self._authority is not None and wants_signature(stored.body):
            try:
                certificate = await asyncio.to_thread(signed, stored.body, self._authority, now)
                status: Body = {"certificate": b64encode(certificate).decode()}
            except ValueError as error:
                status = {"conditions": _failed(stored.body, str(error), now)}

            def change(body: Body) -> Body | None:
                body["status"] = {**mapping(body.get("status")), **status}
                return body

            await self._objects.change(kind, "", key.name, change, self._options, uid=stored.uid)
        return remaining_s


def wants_signature(body: Body) -> bool:
    """Whether a request is approved, and waits for the signer of the hub."""
    answered = of_type(body, DENIED) or of_type(body, FAILED) or at(body, "status", "certificate")
    return at(body, "spec", "signerName") == CLIENT_SIGNER and bool(of_type(body, APPROVED)) and not answered


def _ends(body: Body) -> float:
    """The time at which a request goes: an hour after the last answer to it, a day after its creation without one."""
    times = [seconds(row.get("lastUpdateTime")) for row in rows(at(body, "status", "conditions"))]
    answered = [time for time in times if time is not None]
    if answered:
        return max(answered) + DONE_S
    return (seconds(at(body, "metadata", "creationTimestamp")) or 0.0) + FORGOTTEN_S


def _failed(body: Body, why: str, now: float) -> list[Body]:
    at_ = rfc3339(now)
    condition = {
        "type": FAILED,
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": why,
        "lastUpdateTime": at_,
        "lastTransitionTime": at_,
    }
    return [*rows(at(body, "status", "conditions")), condition]


def signed(body: Body, authority: Authority, now: float) -> bytes:
    """The certificate (PEM) for a request. Raises ValueError for a request that this signer does not sign."""
    request, usages = request_of(body), {str(usage) for usage in at(body, "spec", "usages") or ()}
    if request is None:
        raise ValueError("the request cannot be read")
    for usage in sorted(usages - {"client auth"} - _OPTIONAL_USAGES):
        raise ValueError(f"invalid usage for client certificate: {usage}")
    if "client auth" not in usages:
        raise ValueError("missing required usage for client certificate: client auth")
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    key = serialization.load_pem_private_key(authority.key.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the hub's CA is of another sort than the hub makes")
    asked = at(body, "spec", "expirationSeconds")
    life = max(LIFE_MIN_S, min(asked, LIFE_MAX_S)) if isinstance(asked, int) else LIFE_MAX_S
    begins = datetime.fromtimestamp(int(now), UTC)
    ends = min(begins + timedelta(seconds=life), issuer.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder(
            issuer.subject, request.subject, request.public_key(), x509.random_serial_number(), begins - BACKDATED, ends
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    if usages & _OPTIONAL_USAGES:  # the extension may not be empty
        builder = builder.add_extension(
            x509.KeyUsage(
                digital_signature="digital signature" in usages,
                key_encipherment="key encipherment" in usages,
                content_commitment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=False,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
