"""Use, memory and power of GPUs in a member, asked of its DCGM exporters or of a Prometheus that scrapes them.

Nothing that a source answers is trusted: its size, its rows and the range of its numbers are bounded, and a row that
cannot be read counts as not there. Exporters that do not answer are named, and cost the others nothing.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import orjson

from fleet.members.gpusource import Exporters, Prometheus, Source, proxied
from fleet.members.texts import one_line
from fleet.values.untyped import mapping, pairs, rows, text

UTILIZATION, USED, FREE, POWER = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_POWER_USAGE",
)
NAMES = (UTILIZATION, USED, FREE, POWER)
EXPORTERS_MOST = 500  # of one member: one page of a list
AT_ONCE = 8  # exporters of one member
EXPORTER_S, ALL_S = 5.0, 10.0
ANSWER_BYTES_MAX = 8 << 20
ROWS_MOST = 40_000  # of one answer: four of each GPU
SILENT_MOST = 5  # exporters that are named one by one
# Own code and no library: that of Prometheus takes 0.2 ms for a row, on the event loop of a hub process.
_ROW = re.compile(rf"({'|'.join(NAMES)})\{{(.*)\}}[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*\Z")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_MIB = float(1 << 20)
# The largest value that can be true, and the unit. A driver without a figure may tell a very large number instead.
_READ = {UTILIZATION: (100.0, 0.01), USED: (1e8, _MIB), FREE: (1e8, _MIB), POWER: (1e5, 1.0)}
_FIELD = {UTILIZATION: "utilization", USED: "used_bytes", FREE: "free_bytes", POWER: "power_watts"}


class NoFigures(Exception):
    """A source does not answer, or not with figures; the text says why."""


class Asker(Protocol):
    """The ways to the sources of one member. Each raises NoFigures for any answer but HTTP 200."""

    async def member(self, path: str, within_s: float) -> bytes:
        """A path of the member's API."""
        ...

    async def elsewhere(self, source: Prometheus, path: str, within_s: float) -> bytes:
        """A path below the address of a Prometheus outside the member."""
        ...


@dataclass(frozen=True, slots=True)
class Figure:
    """One GPU, or one instance of a divided GPU. `namespace`, `pod`: its user, "" for none. Utilization from 0 to 1;
    None: not told."""

    namespace: str = ""
    pod: str = ""
    model: str = ""
    utilization: float | None = None
    used_bytes: float | None = None
    free_bytes: float | None = None
    power_watts: float | None = None


@dataclass(slots=True)
class SourceFigures:
    """`silent`: why figures are missing; "" for none."""

    figures: list[Figure] = field(default_factory=list)
    silent: str = ""


async def ask(source: Source, asker: Asker, nodes: Collection[str] | None = None, namespace: str = "") -> SourceFigures:
    """The figures of the member. `nodes`: exporters of other nodes are not asked; None: all are. `namespace`: a
    Prometheus is asked about pods of this one alone. Takes at most ALL_S seconds."""
    try:
        async with asyncio.timeout(ALL_S):
            if isinstance(source, Prometheus):
                return SourceFigures(await _of_prometheus(source, asker, namespace))
            return await _of_exporters(source, asker, nodes)
    except TimeoutError:
        return SourceFigures(silent=f"tells no GPU figures: no answer within {ALL_S:g} s")
    except NoFigures as error:
        return SourceFigures(silent=f"tells no GPU figures: {error}")


# -- exporters


async def _of_exporters(source: Exporters, asker: Asker, nodes: Collection[str] | None) -> SourceFigures:
    labels = ",".join(f"{key}={value}" for key, value in source.labels)
    query = urlencode({"labelSelector": labels, "fieldSelector": "status.phase=Running", "limit": EXPORTERS_MOST})
    listed = _json(await asker.member(f"/api/v1/namespaces/{source.namespace}/pods?{query}", EXPORTER_S))
    pods: dict[str, str] = {}
    for pod in rows(listed.get("items")):
        node, name = text(mapping(pod.get("spec")).get("nodeName")), text(mapping(pod.get("metadata")).get("name"))
        if node and name and (nodes is None or node in nodes):
            pods[node] = name
    if not pods:
        raise NoFigures(f"no pod with the labels {labels} runs in {source.namespace} on the nodes in question")
    places = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> bytes | NoFigures:
        path = proxied("pods", source.namespace, quote(name, safe=""), source.port, source.scheme)
        async with places:
            try:
                return await asker.member(f"{path}/metrics", EXPORTER_S)
            except NoFigures as error:
                return error

    report, missing = SourceFigures(), {}
    async with asyncio.TaskGroup() as group:
        asked = {node: group.create_task(one(name)) for node, name in sorted(pods.items())}
    for node, task in asked.items():
        answer = task.result()
        if isinstance(answer, bytes):
            figures = figures_in(answer)
            report.figures += figures
        if isinstance(answer, NoFigures) or not figures:
            missing[node] = str(answer) if isinstance(answer, NoFigures) else "its exporter tells no GPU"
    named = "; ".join(f"{node}: {why}" for node, why in list(missing.items())[:SILENT_MOST])
    more = f"; and {len(missing) - SILENT_MOST} nodes more" if len(missing) > SILENT_MOST else ""
    report.silent = one_line(f"tells no GPU figures of {named}{more}") if missing else ""
    return report


def figures_in(content: bytes) -> list[Figure]:
    """The figures in an exporter's text; rows of other metrics, and those that cannot be read, are left out."""
    return _folded(_text_rows(content.decode("utf-8", "replace")))


def _text_rows(content: str) -> Iterator[tuple[str, Mapping[str, str], Any]]:
    for line in content.splitlines():
        if line.startswith("DCGM_FI_DEV_") and (found := _ROW.match(line)) is not None:
            labels = {key: re.sub(r"\\(.)", r"\1", value) for key, value in _LABEL.findall(found[2])}
            yield found[1], labels, found[3]


# -- Prometheus


async def _of_prometheus(source: Prometheus, asker: Asker, namespace: str) -> list[Figure]:
    metric = f'__name__=~"{"|".join(NAMES)}"'
    # Prometheus renames the exporter's own labels `namespace` and `pod` where its scrape does not honour them.
    chosen = [f',{label}="{namespace}"' for label in ("exported_namespace", "namespace")] if namespace else [""]
    samples: list[tuple[str, Mapping[str, str], Any]] = []
    for labels in chosen:
        path = f"/api/v1/query?{urlencode({'query': f'{{{metric}{labels}}}'})}"
        if source.elsewhere:
            answer = _json(await asker.elsewhere(source, path, EXPORTER_S))
        else:
            answer = _json(await asker.member(f"{source.base}{path}", EXPORTER_S))
        if answer.get("status") != "success":
            raise NoFigures("its Prometheus refuses the query")
        for row in rows(mapping(answer.get("data")).get("result")):
            value = row.get("value")
            labelled = pairs(row.get("metric"))
            if isinstance(value, list) and len(value) == 2:
                samples.append((labelled.get("__name__", ""), labelled, value[1]))
    return _folded(samples)


def _json(content: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise NoFigures("an answer is not JSON") from None
    return mapping(body)


# -- rows to GPUs


def _folded(found: Iterable[tuple[str, Mapping[str, str], Any]]) -> list[Figure]:
    """One figure for each GPU and user of it. A row that two answers have counts once."""
    figures: dict[tuple[str, ...], Figure] = {}
    for count, (name, labels, value) in enumerate(found):
        if count >= ROWS_MOST:
            break
        number = _number(name, value)
        if number is None:
            continue
        namespace, pod = _user(labels)
        gpu = labels.get("UUID") or f"{labels.get('Hostname', '')}/{labels.get('gpu', '')}"
        key = (namespace, pod, gpu, labels.get("GPU_I_ID", ""))
        before = figures.get(key) or Figure(namespace, pod, one_line(labels.get("modelName", "")))
        told: dict[str, Any] = {_FIELD[name]: number}
        figures[key] = replace(before, **told)
    return list(figures.values())


def _user(labels: Mapping[str, str]) -> tuple[str, str]:
    pod = labels.get("exported_pod", labels.get("pod", ""))
    return (labels.get("exported_namespace", labels.get("namespace", "")), pod) if pod else ("", "")


def _number(name: str, value: Any) -> float | None:
    """In the unit of the figure; None for a value that cannot be true."""
    most, unit = _READ.get(name, (0.0, 0.0))
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number * unit if unit and math.isfinite(number) and 0 <= number <= most else None


# -- sums


@dataclass(frozen=True, slots=True)
class Sum:
    """Of several GPUs: the mean utilization (0 to 1) of those that tell it, bytes and watts of all; None: none tells.
    `idle`: those that a pod holds and that are used by less than 5 %."""

    gpus: int
    models: tuple[str, ...]
    utilization: float | None
    used_bytes: float | None
    memory_bytes: float | None
    power_watts: float | None
    idle: int


IDLE_BELOW = 0.05


def summed(figures: Collection[Figure]) -> Sum:
    used = [figure.utilization for figure in figures if figure.utilization is not None]
    whole = [figure for figure in figures if figure.used_bytes is not None and figure.free_bytes is not None]
    return Sum(
        len(figures),
        tuple(sorted({figure.model for figure in figures if figure.model})),
        math.fsum(used) / len(used) if used else None,
        _total(figure.used_bytes for figure in figures),
        _total((figure.used_bytes or 0) + (figure.free_bytes or 0) for figure in whole),
        _total(figure.power_watts for figure in figures),
        sum(
            figure.pod != "" and figure.utilization is not None and figure.utilization < IDLE_BELOW
            for figure in figures
        ),
    )


def _total(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return math.fsum(told) if told else None
