"""`fleet api`: one API process."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import DatabaseOption, DataDirOption, HistoryDatabaseOption
from fleet.hub.access import AccessOptions, takes_access
from fleet.hub.tracing import OtlpOption


@takes_access
def api(
    access: AccessOptions,
    data_dir: DataDirOption = None,
    listen: Annotated[str, typer.Option(help="HOST:PORT to serve on.")] = "127.0.0.1:6440",
    database_url: DatabaseOption = None,
    history_database_url: HistoryDatabaseOption = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT at which the hub's other processes reach this one, for the agents that are connected here"
            " (default: that of --listen, with the machine's name for every address)."
        ),
    ] = None,
    drain_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            help="After SIGTERM, say not ready and answer on for so long: load balancers and clients go elsewhere.",
        ),
    ] = 3.0,
    otlp_endpoint: OtlpOption = None,
    fd: Annotated[int | None, typer.Option(hidden=True, help="A listening socket to use instead.")] = None,
) -> None:
    """Run one API process; any number may serve one database.

    All of them need the same data directory, which holds the keys.
    """
    import asyncio
    import socket

    from fleet.cli import logs
    from fleet.cli.datadir import locate
    from fleet.hub import composeapi, intact, serving
    from fleet.hub.compose import Databases, run
    from fleet.hub.firststart import create_root, prepare, public_names
    from fleet.hub.parent import say_ready
    from fleet.hub.starting import place_of, say_start
    from fleet.hub.tracing import endpoint_of
    from fleet.hub.up import bind, parse_listen

    data, otlp = locate(data_dir), endpoint_of(otlp_endpoint)
    access.check()
    if fd is not None:
        listener = socket.socket(fileno=fd)
    else:
        host, port = parse_listen(listen)
        intact.check(data, embedded=not database_url)
        create_root(data)
        if not (data.hub_id_file.exists() and data.ca_certificate.exists() and serving.own(data).key.exists()):
            prepare(data, host)
        if lack := serving.lacks(data, access.certificate, public_names(host)):
            logs.say(lack)
        listener = bind(host, port)
    if not serving.own(data).key.exists():
        raise Failure(f"{data.root} holds no server certificate")

    async def main(stop: asyncio.Event) -> None:
        urls = Databases(database_url or None, history_database_url or None)
        await composeapi.serve_api(data, urls, listener, stop, say_ready, access, advertise or "", drain_seconds, otlp)

    logs.configure(data.logs / "api.log")
    say_start("api", data=str(data.root), database=place_of(database_url))
    run(main)
