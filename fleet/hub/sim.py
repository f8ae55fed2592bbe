"""`fleet sim`: simulated members."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.options import DataDirOption, GpusOption, NodesOption


def sim(
    members: Annotated[int, typer.Option(min=1, max=676, help="How many.")] = 3,
    nodes: NodesOption = 4,
    gpus: GpusOption = 8,
    data_dir: DataDirOption = None,
) -> None:
    """Run simulated members, each with a kubeconfig.

    Whole clusters with made-up nodes, schedulers and job operators; the kubeconfigs are in DATA-DIR/members.
    """
    import asyncio

    from fleet.cli import logs
    from fleet.cli.datadir import locate
    from fleet.hub import compose
    from fleet.hub.firststart import create_root
    from fleet.hub.parent import say_ready
    from fleet.hub.starting import say_start

    data = locate(data_dir)
    create_root(data)

    def ready(names: str) -> None:
        say_ready(names)
        logs.say(f"simulated members are ready: {names.replace(',', ', ')}; their kubeconfigs are in {data.members}")

    async def main(stop: asyncio.Event) -> None:
        await compose.simulate(data, members, nodes, gpus, stop, ready)

    logs.configure(data.logs / "sim.log")
    say_start("sim", data=str(data.root))
    compose.run(main)
