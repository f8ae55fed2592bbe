"""The Dockerfile without a container engine: each of its steps, carried out in a folder.

The folder stands for the root of the image. A base image `python:X.Y` is an environment of that Python in its
`/usr/local` (of the Python of the tests, where the machine has no X.Y). The paths of PLACES in commands and variables
are those of the folder; all else that a command reads is the machine's. `useradd` writes into the folder's `etc`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from tests.checkout import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PLACES = ("/src", "/opt", "/usr/local", "/var/lib/fleet")
# What an engine hands to the steps of a build beside their ENV: where packages come from.
HANDED = re.compile(r"(https?_proxy|no_proxy|PIP_(?!.*TARGET).*|npm_config_.*|SSL_CERT_.*|NODE_EXTRA_CA_CERTS)", re.I)
ACCOUNTS = {"passwd": "root:x:0:0::/root:/bin/sh\n", "group": "root:x:0:\n", "shadow": "root:*:1::::::\n"}


@dataclass
class Stage:
    """`steps`: the instructions after FROM, each with its text."""

    base: str
    name: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Image:
    """What a stage has made in the folder `root`."""

    root: Path
    python: str  # 3.12
    directory: str = "/"
    user: str = "root"
    environment: dict[str, str] = field(default_factory=dict)

    def here(self, text: str, python: str) -> str:
        """The text with the paths of this folder, and of the Python that stands for the image's."""
        places = "|".join(map(re.escape, PLACES))
        text = re.sub(rf"(?<![\w./])({places})(?![\w.])", lambda place: f"{self.root}{place[1]}", text)
        return text.replace(f"python{python}", f"python{self.python}")


def stages() -> list[Stage]:
    """The stages of the Dockerfile."""
    made: list[Stage] = []
    for line in DOCKERFILE.read_text().replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            made.append(Stage(base, name))
        elif word and not word.startswith("#"):
            made[-1].steps.append((word, rest.strip()))
    return made


def context(folder: Path) -> Iterator[str]:
    """The files of a folder that an engine is given: those that .dockerignore does not name."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    left_out = pathspec.GitIgnoreSpec.from_lines(line if line.startswith("**/") else f"/{line}" for line in lines)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not left_out.match_file(name):
            yield name


def build(source: Path, root: Path) -> Image:
    """Carry out the Dockerfile of this checkout on the files of `source`. Each stage is made at `root`, whose path its
    programs name, and is put aside when the next one begins."""
    aside: dict[str, Path] = {}
    *earlier, last = stages()
    for stage in earlier:
        _carry_out(stage, source, root, aside)
        aside[stage.name] = root.rename(root.with_name(f"{root.name}.{stage.name}"))
    return _carry_out(last, source, root, aside)


def _carry_out(stage: Stage, source: Path, root: Path, aside: dict[str, Path]) -> Image:
    named = re.match(r"python:(\d+\.\d+)", stage.base)
    assert named is not None, f"not a base image that an environment stands for: {stage.base}"
    python = _program(named[1])
    for place in (*PLACES, "/etc"):
        (root / place[1:]).parent.mkdir(parents=True, exist_ok=True)
    (root / "etc").mkdir()
    for name, text in ACCOUNTS.items():
        (root / "etc" / name).write_text(text)
    subprocess.run([python, "-m", "venv", root / "usr" / "local"], check=True, timeout=120)
    (library,) = (root / "usr" / "local" / "lib").glob("python*")
    image = Image(root, library.name.removeprefix("python"))
    for word, text in stage.steps:
        step = image.here(text, named[1])
        if word == "WORKDIR":
            image.directory = step
            Path(step).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            pairs = dict(pair.split("=", 1) for pair in step.split())
            image.environment |= {name: value.replace("$PATH", _path(image)) for name, value in pairs.items()}
        elif word == "USER":
            image.user = step
        elif word == "COPY":
            _copy(image, step.split(), source, aside)
        elif word == "RUN":
            # useradd puts its prefix before paths by itself.
            word, _, rest = text.partition(" ")
            _run(image, f"useradd --prefix {image.root} {rest}" if word == "useradd" else step)
    return image


def _program(version: str) -> str:
    """A Python of this version that runs, else that of the tests."""
    found = shutil.which(f"python{version}")
    runs = found and subprocess.run([found, "-c", ""], capture_output=True, timeout=60, check=False).returncode == 0
    return found if found and runs else sys.executable


def _path(image: Image) -> str:
    return image.environment.get("PATH", f"{image.root}/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def _run(image: Image, command: str) -> None:
    handed = {name: value for name, value in os.environ.items() if HANDED.fullmatch(name)}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=image.directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        env={"HOME": str(image.root), **handed, "PATH": _path(image), **image.environment},
    )
    assert done.returncode == 0, f"RUN {command}\n{done.stdout}{done.stderr}"


def _copy(image: Image, words: list[str], source: Path, aside: dict[str, Path]) -> None:
    if words[0].startswith("--from="):
        stage, (place, into) = aside[words.pop(0).partition("=")[2]], words
        shutil.copytree(stage / Path(place).relative_to(image.root), into, symlinks=True)
        return
    *names, into = words
    target = Path(image.directory, into)
    for file in context(source):
        for name in names:
            if name in (".", file) or file.startswith(f"{name}/"):
                to = target / (Path(file).name if name == file else Path(file).relative_to(name))
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / file, to)
