"""CertificateSigningRequests: the requester as the hub knows her, a request that can be signed, and conditions that
nobody takes back.

The request itself never changes. The subresource `approval` says yes or no, and `status` carries the certificate.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from api.admission.causes import duplicate, forbidden, invalid, required, unsupported
from api.admission.rule import Checks
from api.engine.status import Cause
from api.engine.status import forbidden as refused
from api.objects.writing import Review, User
from fleet.values.names import label_problems
from fleet.values.ports import Body
from fleet.values.untyped import at, mapping, rows, text

GROUP = "certificates.k8s.io"
RESOURCE = "certificatesigningrequests"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
LASTING_S = 600  # the shortest time that a certificate may be asked for
_MASTERS = "system:masters"
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_SIGNER_MAX = 571  # a domain, a slash and two names of Kubernetes
_SEGMENT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def request_of(body: Body) -> x509.CertificateSigningRequest | None:
    """The request that an object carries, with a signature that holds; None for anything else."""
    raw = text(at(body, "spec", "request"))
    try:
        found = x509.load_pem_x509_csr(b64decode(raw, validate=True))
        return found if found.is_signature_valid else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _check(review: Review) -> Sequence[Cause]:
    new, old = review.new, review.old
    if new is None:
        return ()
    if review.operation == "CREATE" or old is None:
        _name_requester(new, review.user)
        causes = _spec(mapping(new.get("spec")), new)
        if not causes:
            _refuse_masters(review, new)
        return causes
    if not review.subresource:
        new["spec"] = old.get("spec")
        return ()
    return _conditions(new, old, approving=review.subresource == "approval")


def _name_requester(body: Body, user: User) -> None:
    spec = body["spec"] = dict(mapping(body.get("spec")))
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    extra = {key: list(values) for key, values in user.extra}
    said: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    spec.update({field: value for field, value in said.items() if value})


def _spec(spec: Body, body: Body) -> list[Cause]:
    causes: list[Cause] = []
    if request_of(body) is None:
        raw = text(spec.get("request"))
        causes.append(invalid("spec.request", raw[:100], "PEM block type must be CERTIFICATE REQUEST"))
    usages = [usage for usage in spec.get("usages") or () if isinstance(usage, str)]
    if not usages:
        causes.append(required("spec.usages", ""))
    for number, usage in enumerate(usages):
        if usage not in USAGES:
            causes.append(unsupported(f"spec.usages[{number}]", usage, USAGES))
        elif usage in usages[:number]:
            causes.append(duplicate(f"spec.usages[{number}]", usage))
    causes += _signer(text(spec.get("signerName")))
    seconds = spec.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < LASTING_S:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid("spec.expirationSeconds", seconds, why))
    return causes


def _signer(name: str) -> list[Cause]:
    field = "spec.signerName"
    if not name:
        return [required(field, "")]
    if name == _LEGACY_SIGNER:
        return [invalid(field, name, "the legacy signerName is not allowed via this API version")]
    domain, slash, path = name.partition("/")
    labels = domain.split(".")
    if not slash or not path or "/" in path:
        return [invalid(field, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")]
    if len(labels) < 2 or any(label_problems(label) for label in labels):
        return [invalid(field, name, "should be a domain with at least two segments separated by dots")]
    if len(name) > _SIGNER_MAX or not all(_SEGMENT.fullmatch(part) for part in path.split(".")):
        return [invalid(field, name, "the path must consist of names with dots between them")]
    return []


def _refuse_masters(review: Review, body: Body) -> None:
    """A certificate that makes its holder an administrator is not asked for here: nothing could take it back."""
    request = request_of(body)
    if request is None or at(body, "spec", "signerName") != CLIENT_SIGNER:
        return
    groups = {str(group.value) for group in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    if _MASTERS in groups:
        why = f"use of {CLIENT_SIGNER} signer with {_MASTERS} group is not allowed"
        raise refused(review.kind.group, review.kind.resource, review.name, why)


def of_type(body: Body, type_: str) -> list[Body]:
    return [row for row in rows(at(body, "status", "conditions")) if row.get("type") == type_]


def _conditions(new: Body, old: Body, *, approving: bool) -> list[Cause]:
    causes: list[Cause] = []
    types: set[str] = set()
    for number, row in enumerate(rows(at(new, "status", "conditions"))):
        field, type_, status = f"status.conditions[{number}]", text(row.get("type")), text(row.get("status"))
        allowed = ("True",) if type_ in (APPROVED, DENIED, FAILED) else ("False", "True", "Unknown")
        if not type_:
            causes.append(required(f"{field}.type", ""))
        if not status:
            causes.append(required(f"{field}.status", ""))
        elif status not in allowed:
            causes.append(unsupported(f"{field}.status", status, allowed))
        if type_ in types:
            causes.append(duplicate(f"{field}.type", type_))
        types.add(type_)
        if {APPROVED, DENIED} <= types and type_ in (APPROVED, DENIED):
            why = "Approved and Denied conditions are mutually exclusive"
            causes.append(invalid("status.conditions", type_, why))
    for type_ in (APPROVED, DENIED, FAILED):
        before, after = of_type(old, type_), of_type(new, type_)
        if len(after) < len(before):
            why = f'updates may not remove a condition of type "{type_}"'
            causes.append(forbidden("status.conditions", why))
        elif not approving and type_ != FAILED and after != before:
            word = "add" if len(after) > len(before) else "modify"
            causes.append(forbidden("status.conditions", f'updates may not {word} a condition of type "{type_}"'))
    return causes + _certificate(at(new, "status", "certificate"), at(old, "status", "certificate"))


def _certificate(new: Any, old: Any) -> list[Cause]:
    if new == old:
        return []
    if old:
        return [forbidden("status.certificate", "updates may not modify existing certificate content")]
    try:
        x509.load_pem_x509_certificates(b64decode(text(new), validate=True))
    except (ValueError, TypeError):
        why = "must contain at least one CERTIFICATE PEM block"
        return [Cause("status.certificate", f'Invalid value: "<certificate data>": {why}')]
    return []


RULE = Checks(_check)
