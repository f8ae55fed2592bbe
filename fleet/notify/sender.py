"""One delivery: to an address of https, or to a mail server, through the hub's one client for outgoing connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping

import aiosmtplib

from api.outgoing import OutgoingClient, OutgoingError
from fleet.notify.forms import content, mail, signed, signing_key
from fleet.notify.happening import Happening
from fleet.notify.receiver import Mail, Receiver, Web

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 64 << 10
SECRET_TYPE = "fleet.io/notification"  # no other Secret is read, so that a receiver gives away none

Secrets = Callable[[str, str], Mapping[str, bytes] | None]  # namespace, name -> the data of a Secret of this type


class DeliveryFailure(Exception):
    """The text is the hub's own."""


class Sender:
    def __init__(self, outgoing: OutgoingClient, secrets: Secrets) -> None:
        self._outgoing, self._secrets = outgoing, secrets

    async def send(self, receiver: Receiver, identity: str, happening: Happening, now: float) -> None:
        """Deliver it once; DeliveryFailure says why not. `identity`: the same at each try."""
        try:
            if isinstance(receiver.way, Mail):
                await self._mail(receiver, receiver.way, identity, happening)
            else:
                await self._post(receiver, receiver.way, identity, happening, now)
        except OutgoingError as error:
            raise DeliveryFailure(str(error)) from None

    async def _post(self, receiver: Receiver, web: Web, identity: str, happening: Happening, now: float) -> None:
        url = web.url or self._of_secret(receiver, web.url_of).decode("utf-8", "replace").strip()
        body, key = content(web.form, happening), None
        if web.signed_by is not None:
            try:
                key = signing_key(self._of_secret(receiver, web.signed_by))
            except ValueError:
                raise DeliveryFailure("the signing key is no base64 after whsec_") from None
        answer = await self._outgoing.request(
            "POST",
            url,
            body=body,
            ca=web.ca,
            timeout=TIMEOUT_S,
            limit=ANSWER_BYTES_MAX,
            headers={"content-type": "application/json", **signed(identity, now, body, key)},
        )
        if not 200 <= answer.status < 300:
            raise DeliveryFailure(f"it answers HTTP {answer.status}")

    async def _mail(self, receiver: Receiver, to: Mail, identity: str, happening: Happening) -> None:
        login: Mapping[str, bytes] = {}
        if to.login:
            login = self._secret(receiver, to.login)
        message = mail(to, identity, happening)
        try:
            trust = ssl.create_default_context(cadata=to.ca)
        except (ssl.SSLError, ValueError):
            raise DeliveryFailure("its CA certificates cannot be read") from None
        connected = await self._outgoing.connect(to.host, to.port, timeout=TIMEOUT_S)
        client = aiosmtplib.SMTP(
            hostname=to.host,
            port=None,
            sock=connected,
            timeout=TIMEOUT_S,
            tls_context=trust,
            use_tls=to.implicit,
            start_tls=not to.implicit,
            username=login.get("username"),
            password=login.get("password"),
            local_hostname="fleet",
        )
        try:
            async with asyncio.timeout(3 * TIMEOUT_S), client:
                await client.send_message(message)
        except TimeoutError:
            raise DeliveryFailure(f"no answer within {3 * TIMEOUT_S:g} s") from None
        except aiosmtplib.SMTPAuthenticationError:
            raise DeliveryFailure("the mail server refuses the login") from None
        except aiosmtplib.SMTPResponseException as error:
            raise DeliveryFailure(f"the mail server answers {error.code}") from None
        except aiosmtplib.SMTPRecipientsRefused:
            raise DeliveryFailure("the mail server refuses all recipients") from None
        except ssl.SSLError:
            raise DeliveryFailure("its certificate is not trusted") from None
        except (aiosmtplib.SMTPException, OSError):
            raise DeliveryFailure("the mail server closes the connection, or offers no TLS") from None
        finally:
            client.close()

    def _of_secret(self, receiver: Receiver, named: tuple[str, str] | None) -> bytes:
        assert named is not None
        name, key = named
        found = self._secret(receiver, name).get(key)
        if found is None:
            raise DeliveryFailure(f"the Secret {receiver.namespace}/{name} has no key {key}")
        return found

    def _secret(self, receiver: Receiver, name: str) -> Mapping[str, bytes]:
        found = self._secrets(receiver.namespace, name)
        if found is None:
            raise DeliveryFailure(f"there is no Secret {receiver.namespace}/{name} of type {SECRET_TYPE}")
        return found
