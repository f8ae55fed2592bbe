"""What DELETE of an object means: who may, what holds the object, and for how long.

As the other writes (write.py) it is pure, and refuses with StatusError.
"""

from __future__ import annotations

import copy

from fleet.engine.kind import Body, Kind
from fleet.engine.status import Cause, conflict, invalid
from fleet.engine.times import rfc3339
from fleet.engine.validate import shown
from fleet.engine.write import Prepared, counts_generations, set_or_drop

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


def prepare_delete(
    kind: Kind, old: Body, delete_options: Body | None, *, now: float, graceful: bool = False
) -> Prepared:
    """What DELETE does: `finished` when the object is to be removed at once, else the body that says it is going (which
    may be `old` itself, when it says so already).

    `graceful`: a Pod with a node waits for its kubelet for gracePeriodSeconds (30 unless said), as real ones do.
    """
    options = delete_options or {}
    metadata = old["metadata"]
    _check_preconditions(kind, metadata, options.get("preconditions") or {})
    finalizers = _deletion_finalizers(list(metadata.get("finalizers") or ()), options)
    grace = _grace(old, options, graceful and kind.group == "" and kind.resource == "pods")
    going = metadata.get("deletionTimestamp")
    held = bool(finalizers) or grace > 0
    held = held or (
        kind.group == "" and kind.resource == "namespaces" and bool((old.get("spec") or {}).get("finalizers"))
    )
    if not held:
        return Prepared(old, finished=True)
    left = metadata.get("deletionGracePeriodSeconds") or 0
    if going and finalizers == (metadata.get("finalizers") or []) and grace >= left:
        return Prepared(old)
    body = copy.copy(old)
    body["metadata"] = metadata = dict(metadata)
    set_or_drop(metadata, "finalizers", finalizers or None)
    if not going:
        if counts_generations(kind):
            metadata["generation"] = (metadata.get("generation") or 0) + 1
        metadata["deletionTimestamp"] = rfc3339(now + grace)
        if not (kind.group == "" and kind.resource == "namespaces"):
            metadata["deletionGracePeriodSeconds"] = grace
    elif grace < left:
        metadata["deletionTimestamp"] = rfc3339(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if kind.group == "" and kind.resource == "namespaces":
        body["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    return Prepared(body)


def _check_preconditions(kind: Kind, metadata: Body, wanted: Body) -> None:
    for key, label, guess in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted.get(key) and wanted[key] != metadata.get(key):
            text = f"the {label} in the precondition ({wanted[key]}) does not match the {label} in record "
            raise conflict(
                kind.group, kind.kind, metadata["name"],
                f"{text}({metadata.get(key)}). The object might have been {guess}",
            )  # fmt: skip


def _deletion_finalizers(finalizers: list[str], options: Body) -> list[str]:
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        text = f"Invalid value: {shown(policy)}: orphanDependents and deletionPropagation cannot be both set"
        raise invalid("meta.k8s.io", "DeleteOptions", "", [Cause("propagationPolicy", text)])
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return finalizers
    if policy not in ("Orphan", "Background", "Foreground"):
        text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        cause = Cause("propagationPolicy", text, "FieldValueNotSupported")
        raise invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    kept = [f for f in finalizers if f not in (ORPHAN, FOREGROUND)]
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy)
    if wanted is None:
        return kept
    return finalizers if wanted in finalizers and len(kept) == len(finalizers) - 1 else [*kept, wanted]


def _grace(old: Body, options: Body, graceful: bool) -> int:
    if not graceful or not (old.get("spec") or {}).get("nodeName"):
        return 0
    if (old.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.get("gracePeriodSeconds")
    if grace is None:
        grace = (old.get("spec") or {}).get("terminationGracePeriodSeconds")
    return 30 if grace is None else max(0, int(grace))
