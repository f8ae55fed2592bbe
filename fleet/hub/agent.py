"""`fleet agent`: runs in a member that the hub cannot reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.failure import Failure


def agent(
    name: Annotated[str, typer.Argument(help="The name of the member.")],
    hub: Annotated[str, typer.Option(envvar="FLEET_HUB", help="The hub's URL, as this machine reaches it.")],
    token_file: Annotated[Path, typer.Option(help="File with the agent's token.")],
    ca_file: Annotated[
        Path | None, typer.Option(help="The hub's CA certificate (default: the system's certificates).")
    ] = None,
    api: Annotated[
        str | None, typer.Option(help="HOST:PORT of the member's API server (default: that of the pod's cluster).")
    ] = None,
    health_listen: Annotated[
        str | None, typer.Option(help="HOST:PORT for /healthz and, once it is connected, /readyz (default: nowhere).")
    ] = None,
    metrics_listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to serve metrics on, by TLS to one token (default: nowhere).")
    ] = None,
    metrics_token_file: Annotated[Path | None, typer.Option(help="File with the token that reads them.")] = None,
    metrics_cert_file: Annotated[Path | None, typer.Option(help="Certificate of their address, PEM.")] = None,
    metrics_key_file: Annotated[Path | None, typer.Option(help="Key of that certificate, PEM.")] = None,
) -> None:
    """Connect a member behind a firewall.

    Opens one connection to the hub, over which the hub reaches the member's API server, and nothing else. `fleet join
    --agent` prints a Deployment of it.
    """
    import asyncio
    import ssl

    from fleet.agent.health import HealthServer
    from fleet.agent.serving import Agent
    from fleet.cli import logs
    from fleet.hub import compose
    from fleet.hub.starting import say_start
    from fleet.hub.up import bind, parse_listen

    if not hub.startswith("https://"):
        raise Failure(f"--hub {hub}: not an https:// URL")
    at = parse_listen(api or _in_cluster(), "--api")
    try:
        tls = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except OSError as error:
        raise Failure(f"cannot read {ca_file}: {error}") from error
    _read(token_file)
    given = [one is not None for one in (metrics_listen, metrics_token_file, metrics_cert_file, metrics_key_file)]
    if any(given) and not all(given):
        raise Failure("--metrics-listen, --metrics-token-file, --metrics-cert-file and --metrics-key-file go together")
    metrics = bind(*parse_listen(metrics_listen, "--metrics-listen")) if metrics_listen else None
    listener = bind(*parse_listen(health_listen, "--health-listen")) if health_listen else None

    async def main(stop: asyncio.Event) -> None:
        served = Agent(hub, name, lambda: _read(token_file), tls, at)
        tasks = [asyncio.create_task(served.run(), name="agent")]
        if metrics is not None and metrics_token_file and metrics_cert_file and metrics_key_file:
            from api.transport.tls import Certificates, Pair, follow
            from fleet.hub.agentmetrics import OneToken, registry_of
            from fleet.hub.exposition import Exposition

            guard = OneToken(lambda: _read(metrics_token_file))
            try:
                certificates = Certificates(Pair(metrics_cert_file, metrics_key_file))
                exposition = Exposition(registry_of(served), metrics, guard, certificates)
            except OSError as error:
                raise Failure(f"cannot use {metrics_cert_file} with {metrics_key_file}: {error}") from error
            tasks.append(asyncio.create_task(follow(certificates.files, exposition.renew), name="certificates"))
        if listener is not None:
            tasks.append(asyncio.create_task(HealthServer(served, listener).run(), name="health"))
        say_start("agent", hub=hub, member=name)
        stopping: asyncio.Task[object] = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
        for task in tasks:
            if task in done:
                task.result()  # a bug: the process ends with it, and is started again

    logs.configure()
    compose.run(main)


def _read(file: Path) -> str:
    """The token, which a new Secret may have replaced. Raises Failure."""
    try:
        token = file.read_text().strip()
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror or error}") from error
    if not token or not token.isascii() or len(token.split()) != 1:
        raise Failure(f"{file} holds no token")
    return token


def _in_cluster() -> str:
    """The API server of the cluster that this process runs in, as Kubernetes tells its pods."""
    import os

    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise Failure("--api is needed outside a pod: HOST:PORT of the member's API server")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
