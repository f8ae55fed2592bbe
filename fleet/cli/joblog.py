"""`fleet logs`: what the pods of a job print, from whatever member the job is in.

One pod is printed as it is. Of several, each line begins with the name of its pod.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import JOB, ContextOption, DataDirOption, KubeconfigOption, NamespaceOption

if TYPE_CHECKING:
    from pathlib import Path

    from fleet.cli.chosen import Job
    from fleet.cli.hublogs import Wanted

FOLLOWED_MOST = 48  # pods at once: the hub gives one user 64 relays
STOPS_WITHIN_S = 1.0  # after Ctrl-C, where the output takes nothing
GONE = 404  # answer for a pod that its member no longer has
NOT_LISTED = (403, 404)  # answers of a hub, or of a role, that knows no list of a job's pods


def logs(
    job: Annotated[str | None, JOB] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", min=0, help="Only of the pod of this number: masters first, then workers.")
    ] = None,
    role: Annotated[
        str | None, typer.Option("--role", help="Only of a pod of this component of the job, such as worker.")
    ] = None,
    index: Annotated[
        int | None, typer.Option("--index", min=0, help="Number of the pod in its component (default: 0).")
    ] = None,
    pod: Annotated[str | None, typer.Option("--pod", help="Only of the pod of this name.")] = None,
    container: Annotated[
        str | None, typer.Option("--container", "-c", help="Container of the pod (default: its only one).")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what the pods print.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, help="Only so many lines of the end, of each pod.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only what was printed since then: 90s, 10m, 2h ago, or a time.")
    ] = None,
    since_seconds: Annotated[int | None, typer.Option("--since-seconds", min=1, help="The same, in seconds.")] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
    of_hub: Annotated[
        bool, typer.Option("--hub", help="What the hub's own processes log, from the data directory of this machine.")
    ] = False,
    about: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="With --hub: only lines about this job, or its uid.")
    ] = None,
    request: Annotated[
        str | None,
        typer.Option("--request", metavar="ID", help="With --hub: only of this request, by its header Audit-ID."),
    ] = None,
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the container before its restart.")] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print the logs of a job's pods, or of the hub.

    All pods, unless one is named. Of several pods, each line begins with the name of its pod. The log of a job that is
    over stays for as long as its member keeps the pods. With --hub: what the processes of the hub log, merged by time.
    """
    from fleet.cli.chosen import job_of
    from fleet.cli.hub import connect
    from fleet.cli.hublogs import Wanted
    from fleet.cli.jobpods import pod_of
    from fleet.cli.when import moment

    if of_hub:
        given_too = {"JOB (use --job)": job, "--rank": rank, "--role": role, "--pod": pod, "--container": container}
        wrong = [name for name, value in given_too.items() if value is not None]
        if wrong:
            raise Failure(f"{wrong[0]} does not go with --hub")
        _of_hub(data_dir, Wanted(about or "", namespace or "", request or ""), since, follow)
        return
    if about is not None or request is not None:
        raise Failure(f"{'--job' if about is not None else '--request'} goes with --hub alone")
    if job is None:
        raise Failure("names no job: give its NAME, or --hub for the log of the hub itself")
    hub = connect(kubeconfig, data_dir, context)
    one = job_of(hub, namespace or hub.namespace, job)
    asked = {
        "container": container, "follow": follow, "tailLines": tail, "sinceSeconds": since_seconds,
        "sinceTime": moment(since, time.time()) if since else None,
        "timestamps": timestamps, "previous": previous,
    }  # fmt: skip
    given = {name: _text(value) for name, value in asked.items() if value is not None and value is not False}
    if rank is not None:
        pod = pod_of(one, rank, pod).name
    named = {"role": role, "index": index, "pod": pod}
    which = {name: _text(value) for name, value in named.items() if value is not None}
    pods = [] if which else _names(one)
    if len(pods) > 1:
        _merged(one, pods, given, at_once=follow)
        return
    for piece in _pieces(one, {**which, **given}):
        _write(piece)


def _of_hub(data_dir: Path | None, wanted: Wanted, since: str | None, follow: bool) -> None:
    from dataclasses import replace

    from fleet.cli.datadir import locate
    from fleet.cli.hublogs import print_all, show
    from fleet.cli.when import moment
    from fleet.model.times import seconds

    if since:
        wanted = replace(wanted, since=seconds(moment(since, time.time())) or 0.0)
    data = locate(data_dir)
    data.need()
    print_all(show(data, wanted, follow))


def _text(value: object) -> str:
    return "true" if value is True else str(value)


def _names(job: Job) -> list[str]:
    """The names of the job's pods by rank; none where this user, or an older hub, does not list them."""
    from fleet.cli.hub import Refused
    from fleet.cli.jobpods import pods_of

    try:
        return [pod.name for pod in pods_of(job)[0]]
    except Refused as refused:
        if refused.status not in (*NOT_LISTED, 400):
            raise
        return []  # the log says then what lacks


def _pieces(job: Job, query: Mapping[str, str]) -> Iterator[bytes]:
    from fleet.amc.client import NoAnswer, NotGiven
    from fleet.cli.hub import Refused

    try:
        yield from job.hub.client.stream(f"{job.path}/log?{urlencode(query)}")
    except NotGiven as refused:
        raise Refused(str(refused), refused.answer.status) from refused
    except NoAnswer as error:
        raise Failure(f"the log breaks off ({job.hub.source}): {error}") from error


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, each with its end."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest + b"\n"


def _merged(job: Job, pods: list[str], given: Mapping[str, str], *, at_once: bool) -> None:
    """The logs one after the other; or `at_once`, until all pods have ended, with whole lines of each."""
    from fleet.cli.hub import Refused

    failures: list[str] = []
    gone: list[str] = []
    if at_once and len(pods) > FOLLOWED_MOST:
        print(f"fleet: follows the first {FOLLOWED_MOST} of {len(pods)} pods; --rank names one", file=sys.stderr)
        pods = pods[:FOLLOWED_MOST]

    def show(name: str) -> None:
        try:
            for line in _lines(_pieces(job, {"pod": name, **given})):
                with writing:
                    _write(b"[%s] %s" % (name.encode(), line))
        except Failure as failure:
            if at_once and isinstance(failure, Refused) and failure.status == GONE:
                gone.append(name)  # since it was listed, as an operator deletes workers of a job that is over
                return
            failures.append(f"{name}: {failure}")
        except BrokenPipeError:  # `| head` has seen enough
            if not at_once:
                raise

    writing = threading.Lock()
    if at_once:
        threads = [threading.Thread(target=show, args=(name,), daemon=True) for name in pods]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:  # a thread that wrote while the interpreter ends would abort the process
            if not writing.acquire(timeout=STOPS_WITHIN_S):
                os._exit(130)
            raise
    else:
        for name in pods:
            show(name)
    for failure in failures:
        print(f"fleet: {failure}", file=sys.stderr)
    for name in gone:
        print(f"fleet: {name} is deleted, and its log with it", file=sys.stderr)
    if failures or len(gone) == len(pods):
        raise typer.Exit(1)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
