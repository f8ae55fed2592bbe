"""An issuer with the authorization code flow, as the logins of the console use it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web

from tests.api.oidc.issuer import Issuer


@dataclass
class Provider(Issuer):
    """An issuer with its endpoints of the code flow. `claims`: more of the next token; `refuses`: of each code."""

    methods: list[str] = field(default_factory=lambda: ["client_secret_basic"])
    claims: dict[str, Any] = field(default_factory=dict)
    refuses: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)  # code -> the request that it answers
    heads: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        if request.path.endswith("/openid-configuration"):
            document = {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "scopes_supported": ["openid", "email", "groups"],
                "token_endpoint_auth_methods_supported": self.methods,
            }
            return web.json_response(document)
        if request.path == "/keys":
            return web.json_response({"keys": self.keys})
        if request.path == "/authorize":
            return self._page(request)
        assert (request.method, request.path) == ("POST", "/token")
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        self.heads.append(request.headers.get("authorization", ""))
        asked = self.codes.pop(form["code"], None)
        challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        good = asked is not None and challenge == asked["code_challenge"] and not self.refuses
        if not good or asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = self.token(**{"nonce": asked["nonce"], **self.claims})
        return web.json_response({"id_token": token, "access_token": "none", "token_type": "Bearer"})

    def _page(self, request: web.Request) -> web.Response:
        """Where a person says whether the hub may know who she is."""
        back, state = request.query["redirect_uri"], request.query["state"]
        answers = {"Log in as ann": self.agree(str(request.url)), "Go back": {"error": "access_denied", "state": state}}
        links = "".join(f'<p><a href="{escape(f"{back}?{urlencode(q)}")}">{name}</a>' for name, q in answers.items())
        return web.Response(text=f"<!doctype html><title>Issuer</title>{links}", content_type="text/html")

    def agree(self, where: str) -> dict[str, str]:
        """What the user does at the issuer: the query that the browser comes back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}
        code = f"code-{len(self.codes)}-{len(self.forms)}"
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}
