"""Any sequence of commits, compactions and reads means on a store what it means on a plain dict."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fleet.values.ports import (
    ABSENT,
    ANY,
    EXISTS,
    Body,
    Change,
    CommitResult,
    Delete,
    EventType,
    Expect,
    ExpiredRevision,
    Key,
    Put,
    Store,
    Write,
)
from tests.api.store.world import MemoryWorld, PostgresWorld, World, body, key
from tests.conftest import TEMPLATE, Server

T = TypeVar("T")
NAMES = ("a", "b", "c")
RESOURCES = ("configmaps", "secrets")

keys = st.builds(
    lambda name, resource: key(name, resource=resource), st.sampled_from(NAMES), st.sampled_from(RESOURCES)
)
expects = st.sampled_from([ANY, ANY, ABSENT, EXISTS, Expect(generation=1), Expect(uid="another")])
values = st.integers(0, 3)


@dataclass
class Logged:
    revision: int
    type: EventType
    key: Key
    value: int | None


class Model:
    """What must be stored: key -> (revision, value), and the log."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.objects: dict[Key, tuple[int, int]] = {}
        self.log: list[Logged] = []
        self.compacted = 0

    def commit(self, writes: list[Write]) -> int | None:
        """Index of the write that loses, or None; changes nothing in the first case."""
        objects, log, revision = dict(self.objects), list(self.log), self.revision
        for index, write in enumerate(writes):
            found = objects.get(write.key)
            if not self._holds(write.expect, found):
                return index
            if isinstance(write, Put):
                value = write.body["data"]["v"]
            elif found is None:
                return index
            elif isinstance(write, Change):
                if found[1] == 0:  # see `_add`
                    continue
                value = found[1] + 1
            else:
                value = found[1]
            revision += 1
            if isinstance(write, Delete):
                del objects[write.key]
                log.append(Logged(revision, EventType.DELETED, write.key, value))
            else:
                kind = EventType.ADDED if found is None else EventType.MODIFIED
                objects[write.key] = (revision, value)
                log.append(Logged(revision, kind, write.key, value))
        self.objects, self.log, self.revision = objects, log, revision
        return None

    @staticmethod
    def _holds(expect: Expect, found: tuple[int, int] | None) -> bool:
        if found is None:
            return expect in (ANY, ABSENT)
        if expect.absent or expect.uid == "another":
            return False
        return expect.revision is None or expect.revision == found[0]


def _add(found: Body) -> Body | None:
    """One more; nothing to do for 0."""
    if found["data"]["v"] == 0:
        return None
    found["data"]["v"] += 1
    return found


class StoreMachine(RuleBasedStateMachine):
    make: Callable[[], World]  # set by the test

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world = type(self).make()
        self.store: Store = self.run(self.world.open())
        self.model = Model(self.run(self.store.revision()))
        self.begin = self.model.revision
        self.watches = {resource: self.run(self.store.watch("", resource)) for resource in RESOURCES}
        self.delivered: dict[str, list[Logged]] = {resource: [] for resource in RESOURCES}
        self.watching = True

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.world.close())
        self.runner.close()

    @initialize()
    def begins_empty(self) -> None:
        assert all(not self.run(self.store.list("", resource)).items for resource in RESOURCES)

    def _commit(self, writes: list[Write]) -> None:
        before = self.model.revision
        loser = self.model.commit(writes)
        outcome = self.run(self.store.commit(writes))
        if loser is None:
            assert isinstance(outcome, CommitResult)
            assert outcome.revision == self.model.revision
        else:
            assert not isinstance(outcome, CommitResult) and outcome.index == loser
            assert self.model.revision == before

    @rule(where=keys, value=values, expect=expects)
    def put(self, where: Key, value: int, expect: Expect) -> None:
        self._commit([_put(where, value, expect)])

    @rule(where=keys, expect=expects)
    def change(self, where: Key, expect: Expect) -> None:
        self._commit([Change(where, _add, expect)])

    @rule(where=keys, expect=expects)
    def delete(self, where: Key, expect: Expect) -> None:
        self._commit([Delete(where, expect)])

    @rule(where=keys, off=st.integers(0, 1))
    def replace_the_revision_seen(self, where: Key, off: int) -> None:
        found = self.model.objects.get(where)
        if found is not None:
            self._commit([_put(where, 1, Expect(revision=found[0] - off))])

    @rule(parts=st.lists(st.tuples(st.sampled_from("pcd"), keys, values, expects), min_size=2, max_size=4))
    def several_at_once(self, parts: list[tuple[str, Key, int, Expect]]) -> None:
        made: list[Write] = []
        for what, where, value, expect in parts:
            if what == "p":
                made.append(_put(where, value, expect))
            else:
                made.append(Change(where, _add, expect) if what == "c" else Delete(where, expect))
        self._commit(made)

    @rule(back=st.integers(0, 5))
    def compact(self, back: int) -> None:
        before = self.model.revision - back
        self.read_watches()
        self.run(self.store.compact(before))
        self.model.compacted = max(self.model.compacted, before)

    @rule()
    def read_watches(self) -> None:
        for resource, watch in self.watches.items():
            wanted = [entry for entry in self.model.log if entry.key.resource == resource]
            while len(self.delivered[resource]) < len(wanted):
                event = self.run(watch.next(10.0))
                assert event is not None
                value = event.stored.body["data"]["v"]
                self.delivered[resource].append(Logged(event.revision, event.type, event.stored.key, value))
            assert self.delivered[resource] == wanted

    @rule(resource=st.sampled_from(RESOURCES), back=st.integers(0, 8))
    def watch_again(self, resource: str, back: int) -> None:
        since = self.model.revision - back
        if since < max(self.begin, self.model.compacted):
            return
        wanted = [entry for entry in self.model.log if entry.key.resource == resource and entry.revision > since]
        watch = self.run(self.store.watch("", resource, since=since))
        for entry in wanted:
            event = self.run(watch.next(10.0))
            assert event is not None
            assert (event.revision, event.type, event.stored.key) == (entry.revision, entry.type, entry.key)
        self.run(watch.aclose())

    @rule(resource=st.sampled_from(RESOURCES))
    def watch_from_before_the_compaction(self, resource: str) -> None:
        if self.model.compacted > self.begin:
            with pytest.raises(ExpiredRevision):
                self.run(self.store.watch("", resource, since=self.model.compacted - 1))

    @invariant()
    def objects_are_as_modelled(self) -> None:
        for resource in RESOURCES:
            page = self.run(self.store.list("", resource))
            found = {item.key: (item.revision, item.body["data"]["v"]) for item in page.items}
            assert found == {k: v for k, v in self.model.objects.items() if k.resource == resource}
            assert page.revision == self.model.revision


def _put(where: Key, value: int, expect: Expect) -> Put:
    return Put(where, body(where.name, data={"v": value}), expect)


def test_the_memory_store_means_what_the_model_means() -> None:
    class Machine(StoreMachine):
        make = MemoryWorld

    run_state_machine_as_test(Machine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))


def test_the_postgres_store_means_what_the_model_means(postgres_server: Server, tmp_path: Path) -> None:
    async def fresh_database() -> str:
        name = f"machine_{uuid.uuid4().hex}"
        connection = await asyncpg.connect(postgres_server.dsn_of("postgres"))
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        await connection.close()
        return postgres_server.dsn_of(name)

    class Machine(StoreMachine):
        @staticmethod
        def make() -> World:
            return PostgresWorld(asyncio.run(fresh_database()), tmp_path / "keys.json")

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=8, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
