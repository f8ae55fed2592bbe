"""`fleet controllers`: one controllers process."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.options import (
    FINISHED_JOB_TTL_S,
    HISTORY_DAYS,
    ClaimOption,
    DatabaseOption,
    DataDirOption,
    FinishedJobOption,
    GuaranteeDelayOption,
    HeadOption,
    HistoryDatabaseOption,
    HistoryDaysOption,
    MetricsOption,
    OutgoingOption,
    PlaceholderOption,
    ProtectionOption,
    ReclaimOption,
    UsageDaysOption,
)
from fleet.hub.serving import CertificateOption, KeyOption, ServingOptions
from fleet.hub.tracing import OtlpOption
from fleet.wellknown import PLACEHOLDER_IMAGE


def controllers(
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = None,
    history_database_url: HistoryDatabaseOption = None,
    reclaim: ReclaimOption = True,
    protection_seconds: ProtectionOption = 300.0,
    claim_seconds: ClaimOption = 900.0,
    head_after_seconds: HeadOption = 600.0,
    guarantee_delay_seconds: GuaranteeDelayOption = None,
    placeholder_image: PlaceholderOption = PLACEHOLDER_IMAGE,
    finished_job_ttl_seconds: FinishedJobOption = FINISHED_JOB_TTL_S,
    history_days: HistoryDaysOption = HISTORY_DAYS,
    usage_days: UsageDaysOption = HISTORY_DAYS,
    outgoing_allow: OutgoingOption = None,
    metrics_listen: MetricsOption = None,
    tls_cert_file: CertificateOption = None,
    tls_private_key_file: KeyOption = None,
    otlp_endpoint: OtlpOption = None,
    metrics_fd: Annotated[int | None, typer.Option(hidden=True, help="A listening socket to use instead.")] = None,
) -> None:
    """Run one controllers process (one leads, others stand by)."""
    import asyncio
    import socket

    from fleet.cli import logs
    from fleet.cli.datadir import locate
    from fleet.controllers.runtime.hub import ControllerConfig
    from fleet.hub import buffers, compose, intact
    from fleet.hub.access import AccessOptions
    from fleet.hub.parent import say_ready
    from fleet.hub.starting import place_of, say_start
    from fleet.hub.tracing import endpoint_of
    from fleet.hub.up import bind, parse_listen

    AccessOptions(outgoing_allow=outgoing_allow).allowed()  # a wrong one is named before anything starts
    certificate = ServingOptions(tls_cert_file, tls_private_key_file)
    certificate.check()
    data, otlp = locate(data_dir), endpoint_of(otlp_endpoint)
    intact.check(data, embedded=not database_url)
    data.need()
    config = ControllerConfig(
        reclaim=reclaim,
        protection_s=protection_seconds,
        claim_s=claim_seconds,
        head_after_s=head_after_seconds,
        guarantee_delay_s=guarantee_delay_seconds,
        placeholder_image=placeholder_image,
        finished_job_ttl_s=finished_job_ttl_seconds,
        history_days=history_days,
        usage_days=usage_days,
        outgoing_allow=tuple(outgoing_allow or ()),
        root_certificate=data.ca_certificate.read_text(),
    )

    metrics: socket.socket | None = None
    if metrics_fd is not None:
        metrics = socket.socket(fileno=metrics_fd)
    elif metrics_listen:
        metrics = bind(*parse_listen(metrics_listen, "--metrics-listen"))

    async def main(stop: asyncio.Event) -> None:
        urls = compose.Databases(database_url or None, history_database_url or None)
        await compose.run_controllers(data, urls, stop, say_ready, config, metrics, otlp, certificate)

    logs.configure(data.logs / "controllers.log")
    say_start("controllers", data=str(data.root), database=place_of(database_url))
    buffers.keep_apart()
    compose.run(main)
