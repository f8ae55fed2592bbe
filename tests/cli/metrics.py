"""Requests for the metrics of a running hub, and the token of its admin."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path


def ask(address: str, folder: Path, token: str | None, method: str = "GET") -> tuple[int, str]:
    """Status and body, over TLS that the hub's own authority vouches for."""
    context = ssl.create_default_context(cafile=str(folder / "pki" / "ca.crt"))
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    request = urllib.request.Request(address, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def admin(folder: Path) -> str:
    return (folder / "tokens.csv").read_text().split(",")[0]
