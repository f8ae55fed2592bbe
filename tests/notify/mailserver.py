"""A real mail server on loopback, which asks for TLS and a login and keeps what it gets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from tests.testbed.pki import Pki


@dataclass
class Mailbox:
    port: int = 0
    got: list[EmailMessage] = field(default_factory=list)

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        self.got.append(message)
        return "250 OK"


@asynccontextmanager
async def serving(pki: Pki, *, implicit: bool = False, tls: bool = True) -> AsyncIterator[Mailbox]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.certificate, pki.key)
    mailbox = Mailbox()

    def login(server: Any, session: Any, envelope: Any, mechanism: str, data: LoginPassword) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (b"fleet", b"secret"), handled=False)

    def protocol() -> SMTP:
        starts = tls and not implicit
        return SMTP(
            mailbox,
            hostname="mail.example",
            tls_context=context if starts else None,
            require_starttls=starts,
            authenticator=login,
            auth_required=tls,
            auth_require_tls=starts,
        )

    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context if implicit else None)
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()
