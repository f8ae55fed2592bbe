"""A hub as compose runs it: by a user who may write into a volume and nowhere else. What the Dockerfile installs is
tested in test_dockerfile.py."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.checkout import ROOT
from tests.packaging.image import stages
from tests.packaging.volume import check_hub


def test_a_hub_of_a_user_who_may_write_only_its_data_serves_the_console(whole: Path, volume: Path) -> None:
    check_hub(whole / "bin" / "fleet", volume)


def test_compose_gives_the_hub_nothing_to_write_but_its_volume() -> None:
    hub = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["hub"]
    steps = stages()[-1].steps
    (volume,) = [text for word, text in steps if word == "VOLUME"]
    assert (hub["read_only"], hub["tmpfs"], hub["volumes"]) == (True, ["/tmp"], [f"hub:{volume}"])
    assert (hub["cap_drop"], hub["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    words = [word for word, _ in steps]
    assert "RUN" not in words[words.index("USER") :] and ("USER", "fleet") in steps
