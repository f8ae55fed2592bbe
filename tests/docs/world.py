"""What a page takes for granted when it shows its commands, and builders for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tests.docs.shown import FENCE, Command, commands
from tests.e2e.manifests import Manifest, gang_policy, pytorchjob

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
WALKTHROUGH = HOW_TO.parents[1] / "examples" / "walkthrough"


@dataclass(frozen=True)
class Meanwhile:
    """What becomes so before the page's next command, in this order: `shell` is run, the objects are applied, the jobs
    `running` and `finished` have come so far. `section`, `before`: patterns of the heading above this command, and of
    the command."""

    before: str = "*"
    section: str = "*"
    objects: tuple[Manifest, ...] = ()
    running: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    shell: str = ":"

    def comes(self, command: Command) -> bool:
        return fnmatchcase(command.section, self.section) and fnmatchcase(command.line, self.before)


@dataclass(frozen=True)
class World(Meanwhile):
    """What is so before the first command, and `meanwhile` before later ones. `namespace`: of the reader's context;
    `files`: beside the reader; `afterwards`: puts back what other pages would meet."""

    namespace: str = "default"
    files: dict[str, str] = field(default_factory=dict)
    meanwhile: tuple[Meanwhile, ...] = ()
    afterwards: str = ":"


def namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def job(name: str, *, gpus: int = 8) -> Manifest:
    """Of one pod, which runs until it is deleted."""
    return pytorchjob(name, workers=0, gpus=gpus)


def sized(tree: Manifest, gpus: int) -> Manifest:
    """The tree over so many GPUs."""
    for which in ("min", "max"):
        tree["spec"]["root"][which] = {**tree["spec"]["root"][which], "nvidia.com/gpu": gpus}
    return tree


def shown_files(page: str) -> dict[str, str]:
    """The files that a page shows with `cat`."""
    found = commands((HOW_TO / page).read_text())
    return {one.line[4:]: "\n".join(one.output or ()) for one in found if one.line.startswith("cat ")}


def shown_object(page: str, kind: str) -> Manifest:
    """The first object of this kind that a page shows."""
    blocks = [block for language, block in FENCE.findall((HOW_TO / page).read_text()) if language == "yaml"]
    bodies = [body for block in blocks for body in yaml.safe_load_all(block)]
    return next(body for body in bodies if isinstance(body, dict) and body.get("kind") == kind)


def within(name: str, manifest: Manifest) -> Manifest:
    """The object in another namespace than the reader's."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": name}}


def labelled(manifest: Manifest, **labels: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}


def annotated(manifest: Manifest, **annotations: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def moved(state: Mapping[str, str] | None = None, **limits: int) -> Manifest:
    """The `failover` of a policy. `state`: JSON paths by label."""
    rules = [{"aliasLabelName": label, "jsonPath": path} for label, path in (state or {}).items()]
    seconds = {"decisionConditions": {"tolerationSeconds": limits.pop("tolerationSeconds", 300)}}
    preserved = {"statePreservation": {"rules": rules}} if rules else {}
    return {"application": {**seconds, "purgeMode": "Directly", **limits, **preserved}}


def example(name: str) -> Manifest:
    """Of the walk-through."""
    made: Manifest = yaml.safe_load((WALKTHROUGH / name).read_text())
    return made


def file_of(*objects: Manifest) -> str:
    """The text of a file of these objects."""
    return yaml.safe_dump_all(objects)


# The namespaces of the tree of write-a-quota-tree.md, whose jobs wait in their queues; and the tree.
TEAMS = tuple(
    manifest
    for name in ("vision", "language", "production")
    for manifest in (namespace(name), within(name, gang_policy(queue=True)))
)
TREE: Manifest = yaml.safe_load((HOW_TO / "quota-tree.yaml").read_text())
GONE = "kubectl delete pytorchjobs --all --all-namespaces --timeout=150s"
