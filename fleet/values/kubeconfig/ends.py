"""When the credentials of a kubeconfig end, as far as they say it themselves."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from fleet.values.kubeconfig.document import BadKubeconfig, Config, inline
from fleet.values.times import in_calendar

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0  # the optional first field of a certificate


def ends(user: Config) -> dict[str, float]:
    """When the client certificate and the token of a user end, in epoch seconds, as far as they say it themselves.

    Raises BadKubeconfig for a certificate that cannot be read.
    """
    times: dict[str, float] = {}
    certificate = inline("", user, "client-certificate")
    if certificate:
        try:
            times["client certificate"] = _not_after(certificate)
        except (ValueError, LookupError) as error:
            raise BadKubeconfig("client-certificate-data", f"no usable certificate: {error}") from error
    if end := _token_end(str(user.get("token") or "")):
        times["token"] = end
    return times


def _token_end(token: str) -> float | None:
    """The `exp` of a JSON web token; None for a token that names no end."""
    try:
        middle = token.split(".")[1]
        said = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        end = float(said["exp"])
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return end if in_calendar(end) else None


def _not_after(pem: bytes) -> float:
    """The end of the first certificate. Raises ValueError or LookupError. Read by hand: nothing that the command line
    has for it shows the end of a certificate that is no authority's."""
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("no certificate in PEM")
    ((_, certificate),) = _fields(base64.b64decode(found[1]))
    signed = next(_fields(certificate))[1]
    fields = [content for tag, content in _fields(signed) if tag != _VERSION]
    _, (tag, end) = _fields(fields[3])  # after serial number, algorithm and issuer: the validity
    text = end.decode("ascii")
    century = "" if tag == 0x18 else "20" if int(text[:2]) < 50 else "19"  # RFC 5280, 4.1.2.5
    return datetime.strptime(century + text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _fields(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each value, one after the other."""
    at = 0
    while at < len(der):
        tag, size = der[at], der[at + 1]
        at += 2
        if size & 0x80:
            octets = size & 0x7F
            size = int.from_bytes(der[at : at + octets])
            at += octets
        if at + size > len(der):
            raise ValueError("it is cut off")
        yield tag, der[at : at + size]
        at += size
