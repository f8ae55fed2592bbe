"""Trace and node files, good and bad: every format is read, every complaint names file, line and column."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy
import pytest
from matplotlib.figure import Figure

from fleet.simulate.replay import metrics, plots, trace, world
from fleet.simulate.replay.compare import calibrate, interval, summarised
from fleet.simulate.replay.table import BadTrace
from fleet.simulate.replay.trace import GPU

PHILLY = "submit_s,vc,job_id,num_gpu,duration_s\n5,a,j1,32,60\n3,b,j2,1,7.5\n\n9,a,j3,12,0\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,8,G2\n"


def write(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_philly_gangs_are_pods_of_eight_and_jobs_of_no_length_are_left_out(tmp_path: Path) -> None:
    first, second = trace.read(write(tmp_path, PHILLY))
    assert (first.id, first.queue, first.submit_s, first.duration_s, first.gpus) == ("j2", "b", 0, 7.5, 1)
    assert (second.id, second.submit_s) == ("j1", 2)
    (part,) = second.components
    assert (part.replicas, part.requests[GPU]) == (4, 8)
    assert [(part.replicas, part.requests[GPU]) for part in trace.gang(12)] == [(1, 8), (1, 4)]


def test_compressed_files_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(PHILLY.encode()))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(PHILLY.encode()))
    plain = trace.read(write(tmp_path, PHILLY))
    assert trace.read(tmp_path / "t.csv.xz") == plain == trace.read(tmp_path / "t.csv.gz")


def test_sia_and_openb_formats_are_read(tmp_path: Path) -> None:
    sia = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,x\n"
    sia += "2017-10-09 07:00:55,5,8,40,y\n"
    assert [(j.queue, j.submit_s, j.gpus) for j in trace.read(write(tmp_path, sia))] == [("y", 0, 8), ("x", 60, 1)]
    openb = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p0,12000,16384,1,460,V100|A10,LS,Running,10,100,40\np1,500,1,0,0,,BE,Failed,20,25,\np2,0,0,0,0,,BE,Failed,20,25,\n"
    )
    first, second = trace.read(write(tmp_path, openb))
    assert (first.duration_s, first.queue, first.gpus) == (60, "LS", 1)
    assert dict(first.components[0].requests) == {GPU: 1, "cpu": 12000, "memory": 16384 << 20}
    assert first.components[0].claim.affinity[0][0].values == ("A10", "V100")
    assert (second.duration_s, second.gpus, second.components[0].requests["cpu"]) == (5, 0, 500)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "line 1: not the columns of a trace that is known: a, b"),
        ("submit_s,vc,job_id,num_gpu,duration_s\n", "has no job"),
        (PHILLY + "x,a,j9,1,1\n", "line 6, column submit_s: 'x' is not a number"),
        (PHILLY + "1,a,j9,1.5,1\n", "line 6, column num_gpu: 1.5 is not a whole number"),
        (PHILLY + "1,a,j9,-1,1\n", "line 6, column num_gpu: -1 is not between 0 and 1e15"),
        (PHILLY + "1,a,j9,1,nan\n", "line 6, column duration_s: nan is not between 0 and 1e15"),
        (PHILLY + "1,a/b,j9,1,1\n", "line 6, column vc: 'a/b' is no name, which has no slash"),
        (PHILLY + "1,,j9,1,1\n", "line 6, column vc: is empty"),
        (PHILLY + "1,a,j9,1\n", "line 6: not 5 columns"),
        (PHILLY + "1,a,j9,1,1,1\n", "line 6: not 5 columns"),
        (PHILLY + "1,a,j1,1,1\n", "two jobs are named j1"),
    ],
)
def test_what_is_wrong_with_a_trace_is_said_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadTrace) as caught:
        trace.read(path)
    assert str(caught.value) == f"{path}: {complaint}"


def test_files_that_are_not_there_or_not_text_are_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=r"none.csv: cannot be read \(No such file or directory\)"):
        trace.read(tmp_path / "none.csv")
    (tmp_path / "broken.csv.xz").write_bytes(lzma.compress(PHILLY.encode())[:-8])
    with pytest.raises(BadTrace, match="cannot be read"):
        trace.read(tmp_path / "broken.csv.xz")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadTrace, match="cannot be read"):
        trace.read(tmp_path / "binary.csv")


def test_nodes_are_dealt_evenly_and_by_the_seed_alone(tmp_path: Path) -> None:
    more = "".join(f"n{n},64000,262144,{n % 3},P100\n" for n in range(2, 20))
    nodes = world.read_nodes(write(tmp_path, NODES + more))
    one, same, other = (world.split(nodes, 3, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert sorted(sum(n for p in m.pools for _, n in p.free) for m in one) == [6, 7, 7]
    assert sum(free[GPU] * n for m in one for p in m.pools for free, n in p.free) == sum(n.has[GPU] for n in nodes)


def test_bad_nodes_and_quota_for_nobody_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="line 2, column gpu: 'two' is not a number"):
        world.read_nodes(write(tmp_path, NODES.replace("262144,2", "262144,two")))
    with pytest.raises(BadTrace, match="line 1: there is no column gpu"):
        world.read_nodes(write(tmp_path, "sn,cpu_milli,memory_mib\nx,1,1\n"))
    jobs, nodes = trace.read(write(tmp_path, PHILLY)), world.read_nodes(write(tmp_path, NODES, "nodes.csv"))
    with pytest.raises(BadTrace, match=r"c is not a queue of the trace \(they are a, b\)"):
        world.tree(jobs, nodes, world.Quota(max={"c": 1}))


def test_promises_follow_demand_unless_they_are_given(tmp_path: Path) -> None:
    jobs, nodes = trace.read(write(tmp_path, PHILLY)), world.read_nodes(write(tmp_path, NODES))
    made = world.tree(jobs, nodes, world.Quota(guarantee=0.5))
    assert made.nodes["root/a"].min[GPU] == int(0.5 * 10 * (32 * 60) / (32 * 60 + 7.5))
    given = world.tree(jobs, nodes, world.Quota(min={"a": 3}, max={"b": 4}, weight={"b": 2}))
    assert given.nodes["root/a"].min == {GPU: 3} and given.nodes["root/b"].max == {GPU: 4}
    assert given.nodes["root/b"].attributes == {"shared-weight": "2"}
    assert not made.problems()


def test_load_and_jitter_move_arrivals_and_walltimes_are_overestimated(tmp_path: Path) -> None:
    jobs = trace.read(write(tmp_path, PHILLY))
    twice = world.units(jobs, world.Arrivals(load=2.0), seed=1)
    assert [unit.enqueued_at - world.ZERO for unit in twice] == [0, 1]
    assert [unit.walltime_s for unit in twice] == [15, 120]
    shifted = [world.units(jobs, world.Arrivals(jitter_s=50.0), seed) for seed in (1, 1, 2)]
    assert shifted[0] == shifted[1] != shifted[2]
    assert all(0 <= unit.enqueued_at - world.ZERO <= 52 for units in shifted for unit in units)


def test_the_load_is_found_at_which_the_mean_wait_is_what_was_asked_for() -> None:
    assert calibrate(lambda load: 100 * load**2, 40_000) == pytest.approx(20, rel=0.01)
    stairs = calibrate(lambda load: 0.0 if load < 3 else 1000.0, 400)
    assert stairs == pytest.approx(3, rel=0.01), "where it jumps, the nearer side"
    with pytest.raises(BadTrace, match="even at 1024 times the load"):
        calibrate(lambda load: 0.0, 1)


def test_intervals_are_students_and_policies_are_compared_seed_by_seed() -> None:
    assert interval([5.0]) == {"mean": 5.0}
    assert interval([1.0, 2.0, 3.0]) == {"mean": 2.0, "plus_minus": 2.4843}

    def report(wait: float) -> dict[str, object]:
        return {
            "wait_s": {"mean": wait},
            "wait_s_by_gpus": {"8": {"mean": wait, "p99": 0.0}, "16": {"mean": 1.0}},
            "jct_s": {},
            "delay_s": {},
            "unmet": {},
            "makespan_s": 0.0,
            "allocated": 0.0,
            "fragmentation": 0.0,
            "evictions": 0,
            "lost_gpu_h": 0.0,
        }

    said = summarised({"ours": [report(1), report(2)], "theirs": [report(11), report(12)]})
    assert said["differences"]["ours - theirs"]["wait_s.mean"] == {"mean": -10.0, "plus_minus": 0.0}
    assert said["summary"]["ours"]["wait_s_of_16_gpus.mean"] == {"mean": 1.0, "plus_minus": 0.0}


def test_the_plot_of_waits_shows_the_part_that_has_waited_at_most_so_long() -> None:
    axes = Figure().add_subplot()
    plots._waits(axes, "fifo", plots.PolicyCurves(metrics.StepSeries(), 8, [100.0, 10.0, 0.0, 10.0]))
    plots._waits(axes, "race", plots.PolicyCurves(metrics.StepSeries(), 8, []))
    drawn = dict(numpy.asarray(axes.lines[0].get_xydata()).tolist())
    assert drawn == {1.0: 0.25, 10.0: 0.75, 100.0: 1.0}
    assert [line.get_label() for line in axes.lines] == ["fifo", "race"]
