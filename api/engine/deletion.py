"""The meaning of DELETE on an object: the rights, the finalizers that hold it, and for how long.

As the other writes (write.py) it is pure, and refuses with StatusError.
"""

from __future__ import annotations

import copy

from api.engine.kind import Body, Kind
from api.engine.status import Cause, bad_request, conflict, invalid
from api.engine.validate import value_text
from api.engine.write import PreparedWrite, counts_generations, set_or_drop
from fleet.values.times import rfc3339
from fleet.values.untyped import at, mapping, texts, whole

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
GRACE_MAX_S = 10 * 365 * 24 * 3600  # of a pod; a longer wish is cut to this
_GO_TYPES: dict[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "int64"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "string"),
    "preconditions": (dict, "v1.Preconditions"),
    "preconditions.uid": (str, "types.UID"),
    "preconditions.resourceVersion": (str, "string"),
    "dryRun": (list, "[]string"),
}


def check_options(options: Body) -> None:
    """Refuse DeleteOptions whose fields are of other types than a client can mean (StatusError 400)."""
    for path, (wanted, name) in _GO_TYPES.items():
        value = at(options, *path.split("."))
        if value is not None and value.__class__ is not wanted:
            raise bad_request(
                f"json: cannot unmarshal {value_text(value)} into Go struct field DeleteOptions.{path} of type {name}"
            )
    grace = options.get("gracePeriodSeconds")
    if grace is not None and not -(2**63) <= grace < 2**63:
        raise bad_request(
            f"json: cannot unmarshal number {grace} into Go struct field DeleteOptions.gracePeriodSeconds"
        )


def prepare_delete(
    kind: Kind, old: Body, delete_options: Body | None, *, now: float, graceful: bool = False
) -> PreparedWrite:
    """The effect of DELETE. `finished` means that the object is to be removed at once. Otherwise the result is the body
    that says that the object is going (which may be `old` itself, when it says so already).

    `graceful`: a Pod with a node waits for its kubelet for gracePeriodSeconds (30 unless said), as real ones do.
    """
    options = delete_options or {}
    check_options(options)
    metadata = old["metadata"]
    _check_preconditions(kind, metadata, options.get("preconditions") or {})
    finalizers = _deletion_finalizers(list(texts(metadata.get("finalizers"))), options)
    grace = _grace(old, options, graceful and kind.group == "" and kind.resource == "pods")
    going = metadata.get("deletionTimestamp")
    held = bool(finalizers) or grace > 0
    held = held or (kind.group == "" and kind.resource == "namespaces" and bool(at(old, "spec", "finalizers")))
    if not held:
        return PreparedWrite(old, finished=True)
    old_grace = metadata.get("deletionGracePeriodSeconds") or 0
    if going and finalizers == (metadata.get("finalizers") or []) and grace >= old_grace:
        return PreparedWrite(old)
    body = copy.copy(old)
    body["metadata"] = metadata = dict(metadata)
    set_or_drop(metadata, "finalizers", finalizers or None)
    if not going:
        if counts_generations(kind):
            metadata["generation"] = (metadata.get("generation") or 0) + 1
        metadata["deletionTimestamp"] = rfc3339(now + grace)
        if not (kind.group == "" and kind.resource == "namespaces"):
            metadata["deletionGracePeriodSeconds"] = grace
    elif grace < old_grace:
        metadata["deletionTimestamp"] = rfc3339(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if kind.group == "" and kind.resource == "namespaces":
        body["status"] = {**mapping(old.get("status")), "phase": "Terminating"}
    return PreparedWrite(body)


def _check_preconditions(kind: Kind, metadata: Body, preconditions: Body) -> None:
    for key, label, guess in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if preconditions.get(key) and preconditions[key] != metadata.get(key):
            text = f"the {label} in the precondition ({preconditions[key]}) does not match the {label} in record "
            raise conflict(
                kind.group,
                kind.kind,
                metadata["name"],
                f"{text}({metadata.get(key)}). The object might have been {guess}",
            )


def _deletion_finalizers(finalizers: list[str], options: Body) -> list[str]:
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        text = f"Invalid value: {value_text(policy)}: orphanDependents and deletionPropagation cannot be both set"
        raise invalid("meta.k8s.io", "DeleteOptions", "", [Cause("propagationPolicy", text)])
    if policy is None and options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        return finalizers
    if policy not in ("Orphan", "Background", "Foreground"):
        text = f'Unsupported value: {value_text(policy)}: supported values: "Foreground", "Background", "Orphan", "nil"'
        cause = Cause("propagationPolicy", text, "FieldValueNotSupported")
        raise invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    kept = [f for f in finalizers if f not in (ORPHAN, FOREGROUND)]
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy)
    if wanted is None:
        return kept
    return finalizers if wanted in finalizers and len(kept) == len(finalizers) - 1 else [*kept, wanted]


def _grace(old: Body, options: Body, graceful: bool) -> int:
    if not graceful or not at(old, "spec", "nodeName") or at(old, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = whole(at(old, "spec", "terminationGracePeriodSeconds"), 30) if asked is None else asked
    return min(max(0, grace), GRACE_MAX_S)
