"""`fleet controllers`: one controllers process."""

from __future__ import annotations

from fleet.cli.options import DatabaseOption, DataDirOption


def controllers(data_dir: DataDirOption = None, database_url: DatabaseOption = None) -> None:
    """Run one controllers process (one leads, others stand by)."""
    import asyncio

    from fleet.cli import compose
    from fleet.cli.datadir import locate
    from fleet.cli.parent import say_ready

    data = locate(data_dir)
    data.need()

    async def main(stop: asyncio.Event) -> None:
        await compose.run_controllers(data, database_url or None, stop, say_ready)

    compose.configure_logging()
    compose.run(main)
