"""The logs of a job's pods, followed until the job is over: read beside each other, and made one stream.

The hub relays the log of one pod at a time. A relay ends with its pod, with the hub, or after some hours. So times are
asked for with the lines, and a log that has ended before its pod is gone on with after the last line that came. The job
and its pods are looked at now and then, since pods come later, and go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.client.errors import BadRequest, NotFound, Refused, TooManyRequests, Unavailable, Unreachable
from fleet.client.jobs import again
from fleet.client.jobvalues import OVER, JobDetail, LogLine, Pod
from fleet.client.steps import Came, Flow, Give, NextOf, Now, Open, Request, Say, Session, Steps, got, with_query

FOLLOWED_MOST = 48  # pods at once: the hub gives one user 64 relays
MISSING_S = 2.0  # between two looks while pods are missing
STEADY_S = 15.0  # while all are read
ENDED_S = 0.5  # after a log has ended: its pod may be over
STARTING = "waiting to start"  # in what Kubernetes says of a container that has no log yet
Query = Mapping[str, str | None]


@dataclass
class _Log:
    """The log of one pod. `whole`: the pod was over when the log was opened, so the end of the log is its end."""

    pod: Pod
    open: bool = False
    whole: bool = False
    done: bool = False
    news: bool = False  # something, since it was opened
    last: str = ""  # the time of the newest line
    same: int = 0  # lines of that time
    repeats: int = 0  # of them, those that a log which is opened again tells once more

    def take(self, line: str) -> str | None:
        """The text of a line that begins with its time; None for a line that has come before."""
        at, _, text = line.partition(" ")
        if at[4:5] != "-" or at[10:11] != "T":
            self.done = self.news = True  # without times it cannot be gone on with
            return line
        if at < self.last or (at == self.last and self.repeats > 0):
            self.repeats -= at == self.last
            return None
        self.same = self.same + 1 if at == self.last else 1
        self.last, self.repeats, self.news = at, 0, True
        return text


@dataclass
class _Following:
    """What is read of one job: of all its pods, or of the one of a rank or a name."""

    session: Session
    job: JobDetail
    query: Query
    rank: int | None
    name: str | None
    logs: dict[str, _Log] = field(default_factory=dict)  # by uid of the pod
    failure: Refused | None = None
    texts: set[str] = field(default_factory=set)
    noted: bool = False
    read: bool = False

    @property
    def open(self) -> int:
        return sum(log.open for log in self.logs.values())

    @property
    def missing(self) -> bool:
        one = self.rank is not None or self.name is not None
        return self.open < (1 if one else min(FOLLOWED_MOST, max(1, self.job.pods)))

    def look(self) -> Steps[bool]:
        """Open the logs that are not read yet. Whether all has been read."""
        self.job = yield from again(self.session, self.job)
        if self.job.state == "Deleted":
            return self.open == 0
        if not self.missing:
            return False
        pods = [pod for pod in (yield from self._pods()) if self._wanted(pod)]
        for pod in pods:
            log = self.logs.get(pod.uid)
            if log is None and pod.phase != "Pending":
                log = self.logs[pod.uid] = _Log(pod)
            if log is not None and not log.open and not log.done and self.open < FOLLOWED_MOST:
                yield from self._begin(log, pod)
        there = {pod.uid for pod in pods}
        for uid, log in self.logs.items():
            log.done = log.done or (uid not in there and not log.open)
        yield from self._note(len(pods))
        ended = self.job.over or self.failure is not None
        return ended and all(log.done for log in self.logs.values())

    def _pods(self) -> Steps[list[Pod]]:
        try:
            answer = yield from got(self.session, f"{self.job.object}/pods")
        except (BadRequest, NotFound):  # it is in no member
            return []
        return [Pod.of(raw) for raw in answer["items"]]

    def _wanted(self, pod: Pod) -> bool:
        return self.rank in (None, pod.rank) and self.name in (None, pod.name)

    def _begin(self, log: _Log, pod: Pod) -> Steps[None]:
        since = {} if not log.last else {"sinceTime": f"{log.last[:19]}Z", "sinceSeconds": None, "tailLines": None}
        how = {"pod": pod.name, "cluster": pod.member, "follow": "true", "timestamps": "true"}
        log.pod, log.open, log.news, log.repeats = pod, True, False, log.same
        log.whole = pod.phase in OVER
        path = with_query(f"{self.job.object}/log", {**self.query, **since, **how})
        yield Open(pod.uid, Request("GET", path, accept="*/*", stream=True, endless=True))

    def _note(self, pods: int) -> Steps[None]:
        """Say once why nothing comes, or not all."""
        if self.noted:
            return
        if pods > FOLLOWED_MOST:
            self.noted = True
            yield Say(f"{self.job.place} has {pods} pods, of which {FOLLOWED_MOST} are followed at once")
        elif not self.logs and not self.job.over:
            self.noted = True
            why = f": {self.job.reason.text}" if self.job.reason is not None else ""
            yield Say(f"{self.job.place} has no pod that runs; it is {self.job.state}{why}")

    def ended(self, log: _Log, error: Exception | None) -> str:
        """Take in that a log has ended; what is to be said of it."""
        log.open = False
        if error is None:
            self.read, log.done = True, log.done or log.whole
            return ""
        if isinstance(error, NotFound):
            log.done = True
            return f"{log.pod.name} is deleted, and its log with it"
        if _may_pass(error):  # a member that does not answer, or too many relays, is told of once
            text = "" if isinstance(error, Unreachable | BadRequest) else str(error)
            told, self.texts = text in self.texts, self.texts | {text}
            return "" if told else text
        if not isinstance(error, Refused):
            raise error
        log.done, self.failure = True, self.failure or error
        return f"{log.pod.name}: {error}"


def followed(
    session: Session, job: JobDetail, query: Query, *, rank: int | None, name: str | None, timestamps: bool
) -> Flow[LogLine]:
    """The lines of the job's pods as they come, until it is over. Raises the first refusal of a log after all others
    have ended."""
    it = _Following(session, job, query, rank, name)
    due = 0.0
    while True:
        now: float = yield Now()
        if now >= due:
            try:
                over = yield from it.look()
            except (Unreachable, TooManyRequests, Unavailable) as error:
                if not it.logs or not _may_pass(error):
                    raise
                over = False  # what is open goes on
            if over:
                break
            now = yield Now()
            due = now + (MISSING_S if it.missing else STEADY_S)
        came: list[Came] = yield NextOf(max(0.0, due - now))
        for arrival in came:
            log = it.logs[arrival.stream]
            if arrival.line is None:
                due = min(due, now + (ENDED_S if log.news else MISSING_S))
                if said := it.ended(log, arrival.error):
                    yield Say(said)
            elif (text := log.take(arrival.line)) is not None:
                it.read = True
                yield Give(LogLine(pod=log.pod.name, text=arrival.line if timestamps else text, rank=log.pod.rank))
    if it.failure is not None:
        raise it.failure
    if not it.read:
        raise NotFound(404, "NotFound", f"{it.job.place} has no pods any more")


def _may_pass(error: Exception) -> bool:
    """Whether another try may succeed."""
    if isinstance(error, BadRequest):
        return STARTING in error.message
    return isinstance(error, TooManyRequests | Unavailable) or (isinstance(error, Unreachable) and not error.lasting)
