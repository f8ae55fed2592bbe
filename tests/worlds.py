"""Hypothesis strategies for small worlds: every feature of a decision joins here, so that each property meets it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from fleet.core.model.nesting import flaws
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.model.unit import Claim, Component, Nomination
from fleet.core.quota.guarantee import LEND_LIMIT
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.users import USER_MAX, USER_MAX_BY_NAME
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, NodeClaim, UnitBuilder, member, snapshot, tree, unit

MEMBERS = ("x", "y", "z")
LEAVES = (None, "root/a", "root/b", "root/org/c", "root/gone")
RACKS: tuple[dict[str, str], ...] = (
    {},
    {"block": "b1", "rack": "r1"},
    {"block": "b1", "rack": "r2"},
    {"block": "b2", "rack": "r3"},
)
CLAIMS = (NodeClaim(), NodeClaim(), NodeClaim(), NodeClaim(node_selector=(("model", "A"),)))


@st.composite
def trees(draw: st.DrawFn) -> QuotaTree:
    nothing: st.SearchStrategy[dict[str, int]] = st.just({})
    limit = st.one_of(nothing, st.fixed_dictionaries({GPU: st.integers(0, 24)}), st.just({"memory": 40 << 30}))
    policy = st.sampled_from(("Priority", "Priority", "Block", "Intelligent"))
    jobs = st.one_of(nothing, st.fixed_dictionaries({"jobs": st.integers(0, 4)}))
    promise = st.sampled_from(({}, {}, {GPU: 4}, {GPU: 12, "cpu": 40_000}))
    lending = st.sampled_from(({}, {}, {LEND_LIMIT: '{"nvidia.com/gpu": 2}'}))
    per_user = st.sampled_from(
        ({}, {}, {USER_MAX: '{"nvidia.com/gpu": 4}'}, {USER_MAX_BY_NAME: '{"ann": {"kube-queue/max-jobs": 1}}'})
    )
    leaves = {}
    for name in ("a", "b", "org__c"):
        most, promised = draw(limit), draw(promise)
        leaves[name] = {
            "max": most,
            "min": {name: min(amount, most.get(name, amount)) for name, amount in promised.items()},
            "policy": draw(policy),
            "one_at_a_time": draw(st.sampled_from((False, False, False, True))),
            **draw(jobs),
            "attributes": draw(lending) | draw(per_user),
        }
    return tree(org={"max": draw(limit), "attributes": draw(per_user)}, **leaves)


@st.composite
def units(draw: st.DrawFn, number: int, sizes: tuple[int, ...] = (1, 2, 3, 4, 8)) -> UnitBuilder:
    made = unit(f"u{number}").queue(draw(st.sampled_from(LEAVES)))
    for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
        made = made.gang(
            draw(st.integers(1, 3)),
            gpu=draw(st.sampled_from((0, *sizes))),
            cpu=draw(st.sampled_from((0, 4, 48))),
            memory=draw(st.sampled_from((0, 16))),
            claim=draw(st.sampled_from(CLAIMS)),
        )
    made = made.priority(draw(st.sampled_from((0, 0, 5)))).since(draw(st.sampled_from((0, 60, 900, 9000, -10))))
    made = made.having(preemptible=draw(st.sampled_from((True, True, False))))
    made = made.having(rules=draw(rules(made.value.components)))
    made = made.having(user=draw(st.sampled_from(("", "ann", "bob"))))
    made = made.having(walltime_s=draw(st.sampled_from((None, None, 300.0, 900.0))))
    kind = draw(
        st.sampled_from(
            ("waits",) * 8 + ("runs", "comes", "leaves", "held", "backs off", "bound", "shy", "claims", "collects")
        )
    )
    match kind:
        case "runs":
            return made.runs_in(draw(st.sampled_from(MEMBERS)))
        case "comes":
            return made.runs_in(draw(st.sampled_from(MEMBERS)), visible=0)
        case "leaves":
            return made.evicting_from(draw(st.sampled_from(MEMBERS)))
        case "claims":
            return made.having(claim=Claim(draw(st.sampled_from(MEMBERS)), NOW + draw(st.sampled_from((-1, 60)))))
        case "collects":
            said = Nomination(
                draw(st.sampled_from(MEMBERS)),
                NOW - 60,
                NOW + draw(st.sampled_from((-60, 0, 600))),
                draw(st.booleans()),
            )
            return made.having(head=said)
        case "held":
            return made.having(held=True)
        case "backs off":
            return made.having(backoff_until=NOW + draw(st.sampled_from((-1, 1))))
        case "bound":
            return made.only_in(draw(st.sampled_from(MEMBERS)), MEMBERS)
        case "shy":
            return made.having(excluded=frozenset({"x"}), avoid=frozenset({"y"}))
    return made


@st.composite
def rules(draw: st.DrawFn, components: Sequence[Component]) -> Rules:
    """None mostly, else one or two without flaws: for the whole gang, a component or parts, hard or soft."""
    made: Rules = ()
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 1, 2)))):
        of = draw(st.sampled_from(((), (), *((part.name,) for part in components))))
        size = draw(st.sampled_from((0, 0, 1, 2, 3)))
        rule = PlacementRule(
            draw(st.sampled_from(("rack", "rack", "block", "model"))),
            of,
            size,
            size > 0 or draw(st.sampled_from((True, True, False))),
            size * draw(st.sampled_from((0, 1, 2))),
            size > 0 and draw(st.sampled_from((False, False, True))),
        )
        made = made if list(flaws((*made, rule), components)) else (*made, rule)
    return made


@st.composite
def members(draw: st.DrawFn, name: str) -> MemberBuilder:
    made = member(name)
    for label in draw(st.sampled_from(((), ("A",), ("B",), ("A", "B")))):
        made = made.nodes(
            draw(st.integers(0, 3)),
            free_gpu=draw(st.sampled_from((0, 1, 3, 4, 6, 8))),
            free_cpu=draw(st.sampled_from((-2, 4, 50, 96))),
            labels={"model": label, **draw(st.sampled_from(RACKS))},
        )
    if draw(st.sampled_from((False, False, True))):
        made = made.could_add(draw(st.integers(1, 2)), labels={"model": "A", **draw(st.sampled_from(RACKS))})
    return made if draw(st.sampled_from((True, True, True, False))) else made.not_ready("gone")


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    names = draw(st.sampled_from((MEMBERS, MEMBERS, ("x",), ("x", "y"), ())))
    count = draw(st.integers(0, 9))
    parts: list[MemberBuilder | UnitBuilder] = [draw(members(name)) for name in names]
    parts += [draw(units(number)) for number in range(count)]
    config = draw(st.sampled_from((Config(), Config(reclaim=True, protection_s=3.0), Config(reclaim=True))))
    return snapshot(*parts, config, *((draw(trees()),) if draw(st.booleans()) else ()))
