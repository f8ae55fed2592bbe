"""GPU figures out of the answers of exporters and of a Prometheus, good ones and bad ones."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fleet.members.gpufigures import Figure, NoFigures, ask, figures_in, summed
from fleet.members.gpusource import Exporters, Prometheus, faults, source_of

GIB = float(1 << 30)
DCGM = {"dcgm": {"namespace": "gpu", "labels": {"app": "dcgm-exporter"}}}
EXPORTERS = Exporters("gpu", (("app", "dcgm-exporter"),), 9400, "http")


def text(gpu: int, pod: str, use: str = "50") -> str:
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H200",Hostname="n",container="c",namespace="team"'
    labels += f',pod="{pod}"'
    return (
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {use}\nDCGM_FI_DEV_FB_USED{{{labels}}} 1024\n"
        f"DCGM_FI_DEV_FB_FREE{{{labels}}} 3072\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} 300.5 1767000000000\n"
        f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1980\n"
    )


class Answers:
    """The answers of a member by the path; NoFigures for other paths. `asked`: the paths so far."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, list[str]()

    async def member(self, path: str, within_s: float) -> bytes:
        self.asked.append(path)
        answer = self.answers.get(urlsplit(path).path)
        if answer is None:
            raise NoFigures("no answer within 5 s")
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    async def elsewhere(self, source: Prometheus, path: str, within_s: float) -> bytes:
        return await self.member(source.base + path, within_s)


def pods(*nodes: str) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": f"exporter-{node}"}, "spec": {"nodeName": node}} for node in nodes]}


def metrics_of(node: str) -> str:
    return f"/api/v1/namespaces/gpu/pods/exporter-{node}:9400/proxy/metrics"


def test_rows_of_an_exporter_are_one_figure_for_each_gpu() -> None:
    assert figures_in((text(0, "a") + text(1, "a", "100")).encode()) == [
        Figure("team", "a", "NVIDIA H200", 0.5, GIB, 3 * GIB, 300.5),
        Figure("team", "a", "NVIDIA H200", 1.0, GIB, 3 * GIB, 300.5),
    ]


@pytest.mark.parametrize(
    "value", ["NaN", "-1", "+Inf", "101", "9223372036854775794", "x"], ids=lambda value: f"utilization {value}"
)
def test_a_number_that_cannot_be_true_counts_as_not_told(value: str) -> None:
    (figure,) = figures_in(text(0, "a", value).encode())
    assert (figure.utilization, figure.used_bytes) == (None, GIB)


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>502</html>", b"\xff\xfe\x00", b"DCGM_FI_DEV_GPU_UTIL{", b"DCGM_FI_DEV_GPU_UTIL 5\n" * 1000],
    ids=["nothing", "a page", "bytes", "half a row", "rows without labels"],
)
def test_rubbish_has_no_figures(content: bytes) -> None:
    assert figures_in(content) == []


async def test_exporters_on_the_nodes_in_question_are_asked_and_no_others() -> None:
    asker = Answers({"/api/v1/namespaces/gpu/pods": pods("n1", "n2"), metrics_of("n1"): text(0, "a").encode()})
    told = await ask(EXPORTERS, asker, {"n1"})
    assert ([one.pod for one in told.figures], told.silent) == (["a"], "")
    assert [urlsplit(path).path for path in asker.asked] == ["/api/v1/namespaces/gpu/pods", metrics_of("n1")]


async def test_a_dead_exporter_is_named_and_costs_the_others_nothing() -> None:
    listed = pods("n1", "n2", "n3")
    answers = {metrics_of("n2"): text(0, "a").encode(), metrics_of("n3"): b"rubbish"}
    told = await ask(EXPORTERS, Answers({"/api/v1/namespaces/gpu/pods": listed, **answers}))
    assert [one.pod for one in told.figures] == ["a"]
    assert told.silent == "tells no GPU figures of n1: no answer within 5 s; n3: its exporter tells no GPU"


async def test_a_member_without_exporters_says_so() -> None:
    told = await ask(EXPORTERS, Answers({"/api/v1/namespaces/gpu/pods": pods()}))
    assert "no pod with the labels app=dcgm-exporter runs in gpu" in told.silent


@pytest.mark.parametrize("label", ["namespace", "exported_namespace"])
async def test_a_prometheus_is_asked_about_the_namespace(label: str) -> None:
    class Asked(Answers):
        async def member(self, path: str, within_s: float) -> bytes:
            (query,) = parse_qs(urlsplit(path).query)["query"]
            labels = {label: "team", label.replace("namespace", "pod"): "a", "UUID": "1", "modelName": "H200"}
            found = [{"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", **labels}, "value": [1.0, "20"]}]
            result = found if f',{label}="team"' in query else []
            return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    told = await ask(Prometheus("/proxy"), Asked({}), namespace="team")
    assert told.figures == [Figure("team", "a", "H200", 0.2)]


@pytest.mark.parametrize("answer", [b"[]", b"<html>", {"status": "error"}], ids=["a list", "a page", "an error"])
async def test_a_prometheus_without_an_answer_is_named(answer: Any) -> None:
    told = await ask(Prometheus("/proxy"), Answers({"/proxy/api/v1/query": answer}))
    assert told.figures == [] and told.silent.startswith("tells no GPU figures: ")


def test_a_sum_says_how_many_held_gpus_are_idle() -> None:
    found = summed(figures_in((text(0, "a", "0") + text(1, "a", "100") + text(2, "", "0")).encode()))
    assert (found.gpus, found.idle, found.used_bytes, found.memory_bytes) == (3, 1, 3 * GIB, 12 * GIB)
    assert found.utilization == pytest.approx(1 / 3)
    assert summed([]).utilization is None


@pytest.mark.parametrize(
    ("metrics", "field"),
    [
        ({}, ""),
        ({**DCGM, "prometheus": {"url": "https://p"}}, ""),
        ({"dcgm": {"namespace": "../x", "labels": {"a": "b"}}}, "dcgm.namespace"),
        ({"dcgm": {"namespace": "gpu", "labels": {}}}, "dcgm.labels"),
        ({"dcgm": {"namespace": "gpu", "labels": {"a": "b,c=d"}}}, "dcgm.labels[a]"),
        ({"prometheus": {}}, "prometheus"),
        ({"prometheus": {"url": "http://p"}}, "prometheus.url"),
        ({"prometheus": {"url": "https://p", "port": 1}}, "prometheus.port"),
        ({"prometheus": {"namespace": "m", "service": "p/../q"}}, "prometheus.service"),
        ({"prometheus": {"namespace": "m", "service": "p", "path": "/../x?"}}, "prometheus.path"),
        ({"prometheus": {"namespace": "m", "service": "p", "secretRef": {"name": "t"}}}, "prometheus.secretRef"),
    ],
)
def test_a_source_that_cannot_be_asked_names_its_field(metrics: dict[str, Any], field: str) -> None:
    assert [where for where, _, _ in faults(metrics)][:1] == [field]
    assert source_of({"spec": {"metrics": metrics}}) is None


def test_a_source_is_read_with_its_defaults() -> None:
    assert source_of({"spec": {"metrics": DCGM}}) == EXPORTERS
    service = {"namespace": "m", "service": "p", "scheme": "https", "path": "/prom"}
    assert source_of({"spec": {"metrics": {"prometheus": service}}}) == Prometheus(
        "/api/v1/namespaces/m/services/https:p:9090/proxy/prom"
    )
    assert source_of({"spec": {}}) is None
