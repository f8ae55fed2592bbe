"""Fair share: the published example, trees and several resources, and what weighted max-min filling promises."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.quota.fairshare import Claimant, fill, rounded, shares, weight_of
from fleet.core.quota.guarantee import guarantees
from tests.builders import GPU, tree

MUCH = 10**6


def split(total: int, *wants: tuple[int, int]) -> list[int]:
    """Whole shares of one resource, for (demand, weight)."""
    claimants = [Claimant({"r": demand}, {}, Fraction(weight)) for demand, weight in wants]
    return rounded([part["r"] for part in fill({"r": total}, claimants)])


def test_a_pool_is_divided_by_weight() -> None:
    assert split(45, (MUCH, 60), (MUCH, 50), (MUCH, 80)) == [14, 12, 19]


def test_what_one_does_not_need_is_divided_again_among_the_others() -> None:
    with_spare = split(45, (5, 60), (MUCH, 50), (MUCH, 80))
    assert with_spare == [5, 15, 25]
    assert [after - before for after, before in zip(with_spare[1:], (12, 19), strict=True)] == [3, 6]


def test_min_comes_first_and_what_is_left_is_divided() -> None:
    claimants = [Claimant({"r": 100}, {"r": 30}), Claimant({"r": 100}, {}), Claimant({"r": 4}, {"r": 20})]
    assert [part["r"] for part in fill({"r": 54}, claimants)] == [40, 10, 4]


def test_dominant_shares_are_equal_where_two_want_different_things() -> None:
    """The example of the paper on dominant resource fairness: 9 CPUs and 18 GB; pods of (1, 4) and of (3, 1)."""
    a, b = Claimant({"cpu": 1000, "memory": 4000}, {}), Claimant({"cpu": 3000, "memory": 1000}, {})
    assert fill({"cpu": 9, "memory": 18}, [a, b]) == [{"cpu": 3, "memory": 12}, {"cpu": 6, "memory": 2}]


def test_who_needs_nothing_scarce_is_not_held_back_by_those_who_do() -> None:
    scarce, other = Claimant({"gpu": 100, "cpu": 100}, {}), Claimant({"cpu": 30}, {})
    assert fill({"gpu": 10, "cpu": 100}, [scarce, other]) == [{"gpu": 10, "cpu": 10}, {"gpu": 0, "cpu": 30}]


def test_a_tree_divides_between_its_branches_first() -> None:
    nodes = tree(one={}, one__a={}, one__b={}, two={"min": {GPU: 4}}, two__c={})
    demand = {"root/one/a": {GPU: 100}, "root/one/b": {GPU: 100}, "root/two/c": {GPU: 100}}
    total = {GPU: 20}
    found = shares(nodes, guarantees(nodes, total), total, demand)
    assert {path: found[path][GPU] for path in found} == {
        "root": 20,
        "root/one": 8,
        "root/one/a": 4,
        "root/one/b": 4,
        "root/two": 12,
        "root/two/c": 12,
    }


def test_a_max_on_the_way_up_caps_what_a_branch_counts_for() -> None:
    nodes = tree(one={"max": {GPU: 4}, "attributes": {"shared-weight": "1"}}, one__a={}, two={})
    total = {GPU: 20}
    demand = {"root/one/a": {GPU: 100}, "root/two": {GPU: 100}}
    found = shares(nodes, guarantees(nodes, total), total, demand)
    assert (found["root/one/a"][GPU], found["root/two"][GPU]) == (4, 16)


@pytest.mark.parametrize(("text", "weight"), [("3", 3), ("0", Fraction(1, 2)), ("x", Fraction(1, 2))])
def test_a_weight_is_the_attribute_or_else_what_max_allows_of_the_total(text: str, weight: Fraction) -> None:
    assert weight_of({"shared-weight": text}, {GPU: 5, "cpu": 1}, {GPU: 10, "cpu": 10}) == weight


# -- properties of the divisible filling -----------------------------------------------------------------------------

NAMES = ("gpu", "cpu", "memory")
many = settings(max_examples=150, deadline=None, derandomize=True)
totals = st.fixed_dictionaries({name: st.integers(1, 50) for name in NAMES})
claims = st.builds(
    Claimant,
    st.fixed_dictionaries({name: st.sampled_from((0, 1, 2, 7, 30, 60)) for name in NAMES}),
    st.just({}),
    st.sampled_from((1, 2, 5)).map(Fraction),
)
groups = st.lists(claims, min_size=1, max_size=6)


def part_of(claimant: Claimant, bundle: dict[str, Fraction]) -> Fraction:
    """How much of what it asks for, in its proportions, a bundle gives a claimant: between 0 and 1."""
    return min([Fraction(1), *(bundle[name] / asked for name, asked in claimant.demand.items() if asked)])


@many
@given(totals, groups)
def test_nobody_does_better_with_its_part_of_everything(total: dict[str, int], group: list[Claimant]) -> None:
    """Sharing incentive: a claimant gets at least what its weight's part of every resource would give it."""
    weights = sum(claimant.weight for claimant in group)
    for claimant, mine in zip(group, fill(total, group), strict=True):
        alone = {name: amount * claimant.weight / weights for name, amount in total.items()}
        assert part_of(claimant, mine) >= part_of(claimant, alone)


@many
@given(totals, groups)
def test_nobody_envies_another(total: dict[str, int], group: list[Claimant]) -> None:
    """Scaled to its own weight, no other's bundle gives a claimant more than it has."""
    filled = fill(total, group)
    for claimant, mine in zip(group, filled, strict=True):
        for other, theirs in zip(group, filled, strict=True):
            scaled = {name: amount * claimant.weight / other.weight for name, amount in theirs.items()}
            assert part_of(claimant, mine) >= part_of(claimant, scaled)


@many
@given(totals, groups)
def test_nothing_is_left_that_somebody_could_use(total: dict[str, int], group: list[Claimant]) -> None:
    """Pareto efficiency, and no more than there is."""
    filled = fill(total, group)
    left = {name: total[name] - sum(mine[name] for mine in filled) for name in total}
    assert all(amount >= 0 for amount in left.values())
    for claimant, mine in zip(group, filled, strict=True):
        assert all(mine[name] <= claimant.demand[name] for name in total)
        if part_of(claimant, mine) < 1:
            assert any(left[name] == 0 for name, asked in claimant.demand.items() if asked)


@many
@given(totals, groups, st.sampled_from((2, 3)))
def test_more_of_everything_makes_nobody_worse_off(total: dict[str, int], group: list[Claimant], times: int) -> None:
    more = fill({name: amount * times for name, amount in total.items()}, group)
    for claimant, before, after in zip(group, fill(total, group), more, strict=True):
        assert part_of(claimant, after) >= part_of(claimant, before)


@many
@given(st.integers(0, 200), st.lists(st.tuples(st.integers(0, 90), st.sampled_from((1, 2, 5))), min_size=1, max_size=6))
def test_whole_shares_of_one_resource_waste_nothing(total: int, wants: list[tuple[int, int]]) -> None:
    got = split(total, *wants)
    assert sum(got) == min(total, sum(demand for demand, _ in wants))
    exact = fill({"r": total}, [Claimant({"r": demand}, {}, Fraction(weight)) for demand, weight in wants])
    assert all(abs(whole - part["r"]) < 1 for whole, part in zip(got, exact, strict=True))


@many
@given(totals, groups, st.integers(0, 5), st.sampled_from((0, 1, 2)))
def test_asking_for_less_or_leaving_never_hurts_the_others_in_one_resource(
    total: dict[str, int], group: list[Claimant], who: int, part: int
) -> None:
    one = [replace(claimant, demand={"gpu": claimant.demand["gpu"]}) for claimant in group]
    who %= len(one)
    less = [*one]
    less[who] = replace(one[who], demand={"gpu": one[who].demand["gpu"] * part // 3})
    pairs = zip(fill({"gpu": total["gpu"]}, one), fill({"gpu": total["gpu"]}, less), strict=True)
    assert all(after["gpu"] >= before["gpu"] for i, (before, after) in enumerate(pairs) if i != who)
