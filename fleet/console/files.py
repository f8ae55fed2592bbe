"""The built pages, as files of the package: `make console` writes them, and no build is under version control."""

from __future__ import annotations

import os
import re
from base64 import b64encode
from pathlib import Path

from api.engine.status import StatusError
from api.wire.http import Request, Response, text_response

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
ASSETS = "assets/"
NONCE = b"__CSP_NONCE__"  # in index.html, as Vite's html.cspNonce writes it
SOURCES = FOLDER.parents[2] / "console" / "package.json"  # of a checkout
MAKE, INSTALL = "make console", "pip install --force-reinstall fleet-queues-hub"
IMMUTABLE = (b"cache-control", b"public, max-age=31536000, immutable")
NO_STORE = (b"cache-control", b"no-store")
_NAME = re.compile(r"(assets/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_PACKED = {"br": ".br", "gzip": ".gz"}  # the better form first
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


def remedy(sources: Path = SOURCES) -> str:
    """The command that brings the pages: a checkout builds them, and a wheel without them was built without them."""
    return MAKE if sources.is_file() else INSTALL


def policy(nonce: str = "") -> tuple[bytes, bytes]:
    """The Content-Security-Policy. The component library writes style elements, which carry the nonce of the page."""
    style = f"style-src 'self' 'nonce-{nonce}'" if nonce else "style-src 'self'"
    text = (
        f"default-src 'none'; script-src 'self'; {style}; img-src 'self' data:; connect-src 'self'; font-src 'self';"
        " manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )
    return b"content-security-policy", text.encode()


class Files:
    """Reads a file when it is asked for: a browser keeps what it has, so few requests come."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    def answer(self, name: str, request: Request) -> Response:
        """The file `name` below /console/; the page itself for each name that is no file. StatusError 404 for an asset
        that is not there."""
        if not (self._folder / INDEX).is_file():
            return text_response(f"The console has no pages here: {remedy()}, then open this page again.\n", 503)
        path = self._folder / name
        if name != INDEX and path.suffix in _TYPES and _NAME.fullmatch(name) and path.is_file():
            return self._file(path, name.startswith(ASSETS), request)
        if name.startswith(ASSETS):
            raise StatusError(404, "NotFound", "the console has no such file")
        return self._index()

    def _index(self) -> Response:
        nonce = b64encode(os.urandom(16)).decode()
        page = (self._folder / INDEX).read_bytes().replace(NONCE, nonce.encode())
        return Response(page, 200, _TYPES[".html"], (NO_STORE, policy(nonce)))

    def _file(self, path: Path, hashed: bool, request: Request) -> Response:
        kept = IMMUTABLE if hashed else (b"cache-control", b"no-cache")
        offers = {offer.partition(";")[0].strip() for offer in request.header(b"accept-encoding").split(",")}
        headers: tuple[tuple[bytes, bytes], ...] = (kept, (b"vary", b"Accept-Encoding"))
        for form, suffix in _PACKED.items():
            packed = path.with_name(path.name + suffix)
            if form in offers and packed.is_file():
                return Response(
                    packed.read_bytes(), 200, _TYPES[path.suffix], (*headers, (b"content-encoding", form.encode()))
                )
        return Response(path.read_bytes(), 200, _TYPES[path.suffix], headers)
