"""The audit log of an API process: its policy and its places, by the options."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.cli.failure import Failure
from fleet.hub.access import AccessOptions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from api.audit.face import Audit
    from api.audit.metrics import AuditMetrics
    from api.audit.policy import AuditPolicy
    from api.audit.webhook import Receiver
    from api.outgoing.client import OutgoingClient
    from fleet.values.ports import Clock


@dataclass(frozen=True)
class AuditLog:
    """`metrics`: None without a policy."""

    audit: Audit
    metrics: AuditMetrics | None

    def show(self, registry: CollectorRegistry) -> None:
        """Add the metrics of the audit log to those of the API."""
        if self.metrics is not None:
            self.metrics.show(registry)


def check(access: AccessOptions) -> None:
    """Raises Failure where an option of the audit log cannot be used."""
    if _policy(access) is None and (access.audit_log_path or access.audit_webhook_config_file):
        raise Failure("an audit log needs --audit-policy-file")
    if access.audit_policy_file and not (access.audit_log_path or access.audit_webhook_config_file):
        raise Failure("--audit-policy-file needs --audit-log-path or --audit-webhook-config-file")
    _receiver(access)


@contextlib.asynccontextmanager
async def audit_of(access: AccessOptions, outgoing: OutgoingClient, clock: Clock) -> AsyncIterator[AuditLog]:
    """The audit log, open until the end. Raises Failure."""
    from api.audit.face import Audit

    policy = _policy(access)
    if policy is None:
        yield AuditLog(Audit(), None)
        return
    from api.audit.file import AuditFile, Rotation
    from api.audit.metrics import AuditMetrics
    from api.audit.record import Sink
    from api.audit.webhook import AuditWebhook

    metrics = AuditMetrics()
    sinks: list[Sink] = []
    async with contextlib.AsyncExitStack() as stack:
        if access.audit_log_path:
            rotation = Rotation(access.audit_log_maxsize, access.audit_log_maxbackup, access.audit_log_maxage)
            try:
                file = AuditFile(access.audit_log_path, rotation, metrics.of("log"), clock)
            except OSError as error:
                raise Failure(f"--audit-log-path {access.audit_log_path}: {error.strerror or error}") from error
            stack.push_async_callback(asyncio.to_thread, file.stop)
            sinks.append(file)
        receiver = _receiver(access)
        if receiver is not None:
            webhook = AuditWebhook(outgoing, receiver, metrics.of("webhook"), clock)
            webhook.start()
            stack.push_async_callback(webhook.stop)
            sinks.append(webhook)
        yield AuditLog(Audit(policy, sinks, clock), metrics)


def _policy(access: AccessOptions) -> AuditPolicy | None:
    from api.audit.policy import parse
    from fleet.values.sections import BadConfiguration

    path = access.audit_policy_file
    if path is None:
        return None
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise Failure(f"--audit-policy-file {path}: {error.strerror or error}") from error
    except BadConfiguration as error:
        raise Failure(f"--audit-policy-file {path}: {error}") from error


def _receiver(access: AccessOptions) -> Receiver | None:
    from api.audit.webhook import read_receiver
    from fleet.values.kubeconfig.document import BadKubeconfig

    path = access.audit_webhook_config_file
    if path is None:
        return None
    try:
        return read_receiver(path.read_text(encoding="utf-8"), path.absolute().parent)
    except OSError as error:
        raise Failure(f"--audit-webhook-config-file {path}: {error.strerror or error}") from error
    except (BadKubeconfig, UnicodeDecodeError) as error:
        raise Failure(f"--audit-webhook-config-file {path}: {error}") from error
