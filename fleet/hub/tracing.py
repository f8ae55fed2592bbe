"""The option that names a collector of traces, and the traces of one process of a hub."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from fleet.traces.traces import Traces

ENV_OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"
ENV_DISABLED = "OTEL_SDK_DISABLED"
PATH = "/v1/traces"

OtlpOption = Annotated[
    str | None,
    typer.Option(
        "--otlp-endpoint",
        envvar=ENV_OTLP,
        metavar="URL",
        help=f"Collector that gets the traces of jobs, as OTLP over HTTP at URL{PATH} (default: none).",
    ),
]


def endpoint_of(url: str | None) -> str:
    """The URL that takes spans; "" where no traces are wanted. Raises Failure."""
    if not url or os.environ.get(ENV_DISABLED, "").lower() == "true":
        return ""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise Failure(f"--otlp-endpoint {url}: not http(s)://HOST:PORT")
    base = url.rstrip("/")
    return base if base.endswith(PATH) else base + PATH


@contextlib.asynccontextmanager
async def traces_of(endpoint: str, service: str, hub_id: str) -> AsyncIterator[Traces | None]:
    """The traces of this process until the end, None without an endpoint. Raises Failure where a variable of the SDK
    cannot be used."""
    if not endpoint:
        yield None
        return
    from fleet.traces.traces import Traces

    try:
        traces = Traces(endpoint, service, {"fleet.hub": hub_id})
    except (ValueError, OSError) as error:
        raise Failure(f"--otlp-endpoint: the variables OTEL_… cannot be used: {error}") from error
    try:
        yield traces
    finally:
        await asyncio.to_thread(traces.close)
