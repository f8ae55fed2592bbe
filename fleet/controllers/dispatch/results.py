"""The outcome of dispatch on a binding: how sending went in each member, and which copies have left. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.core.model.reason import Code
from fleet.kinds import Health
from fleet.members.members import ActOutcome, ActResult
from fleet.values.ports import Body
from fleet.wellknown import FULLY_APPLIED


def tasks_done(binding: Body, left: Iterable[str]) -> bool:
    """Drop the eviction tasks of members that have nothing of it any more, in place; False when there is none."""
    kept = [task for task in b.tasks_of(binding) if task["fromCluster"] in set(left)]
    if len(kept) == len(b.tasks_of(binding)):
        return False
    if kept:
        binding["spec"]["gracefulEvictionTasks"] = kept
    else:
        binding["spec"].pop("gracefulEvictionTasks", None)
        drop_condition(binding, b.WITHDRAWN)
    return True


def applied(
    binding: Body, outcomes: dict[str, ActOutcome], missing: Sequence[str], holders: Iterable[str], now: float
) -> bool:
    """Write down the outcome of each member, in place; only for the members that the binding is placed in now. A member
    that still has something of it (`holders`) stays listed, and is remembered so."""
    if set(outcomes) != set(b.clusters_of(binding)):
        return False
    status = binding.setdefault("status", {})
    old_items = {item["clusterName"]: item for item in b.copies_of(binding)}
    items = [old_items[member] for member in sorted(set(holders) - set(outcomes)) if member in old_items]
    changed = set(old_items) != {*outcomes, *(item["clusterName"] for item in items)}
    for member, outcome in sorted(outcomes.items()):
        if outcome.did is ActResult.UNREACHABLE and old_items.get(member, {}).get("applied"):
            outcomes = {
                **outcomes,
                member: ActOutcome(ActResult.DONE),
            }  # applied before, and not known to have gone since
            items.append(old_items[member])
            continue
        applied = outcome.did is ActResult.DONE
        item = {**old_items.get(member, {}), "clusterName": member, "applied": applied}
        item.pop("appliedMessage", None)
        if not applied:
            item["appliedMessage"] = outcome.message
        elif b.is_gang(binding):  # as observe finds a copy that has no status yet: that is one write less
            item.setdefault("health", str(Health.UNKNOWN))
        changed |= item != old_items.get(member)
        items.append(item)
    status["aggregatedStatus"] = items
    failed = [
        f"{member}: {outcome.message}"
        for member, outcome in sorted(outcomes.items())
        if outcome.did is not ActResult.DONE
    ]
    if failed:
        unreachable = all(o.did in (ActResult.DONE, ActResult.UNREACHABLE) for o in outcomes.values())
        reason = str(Code.MEMBER_UNREACHABLE) if unreachable else "FullyAppliedFailed"
        causes = {str(o.cause) for o in outcomes.values() if o.did is not ActResult.DONE and o.cause is not None}
        if len(causes) == 1:
            reason = causes.pop()
        if all(o.did in (ActResult.DONE, ActResult.SUSPENDED) for o in outcomes.values()):
            reason = "DispatchingSuspended"
        if any(o.did is ActResult.OVERRIDE for o in outcomes.values()):
            reason = str(Code.OVERRIDE_FAILED)
        changed |= set_condition(binding, FULLY_APPLIED, False, reason, "; ".join(failed), now)
    elif missing:
        changed |= set_condition(
            binding, FULLY_APPLIED, False, "DependencyMissing", f"cannot be sent: {', '.join(missing)}", now
        )
    else:
        message = "All works have been successfully applied"
        changed |= set_condition(binding, FULLY_APPLIED, True, "FullyAppliedSuccess", message, now)
    return changed
