"""NotificationReceivers: one way, an address of https, no selector for other namespaces but in fleet-system; and the
annotation of a job that names receivers."""

from __future__ import annotations

from collections.abc import Sequence

from api.admission.causes import forbidden, invalid, required
from api.admission.labelselectors import selector_faults
from api.admission.rule import Checks, of_new
from api.engine.status import Cause
from fleet.admission.statuses import status_by_hub
from fleet.values.ports import Body
from fleet.values.untyped import mapping, text
from fleet.wellknown import SYSTEM_NAMESPACE


def receiver(body: Body) -> Sequence[Cause]:
    spec, causes = mapping(body.get("spec")), []
    if ("webhook" in spec) == ("smtp" in spec):
        why = "exactly one of webhook and smtp says where to send"
        causes.append(forbidden("spec.smtp", why) if "smtp" in spec else required("spec.webhook", why))
    if "webhook" in spec:
        causes += _webhook(mapping(spec["webhook"]))
    if "selector" in spec:
        causes += selector_faults("spec.selector", mapping(spec["selector"]))
    namespace = text(mapping(body.get("metadata")).get("namespace"))
    if spec.get("allNamespaces") and namespace != SYSTEM_NAMESPACE:
        causes.append(forbidden("spec.allNamespaces", f"is for receivers in the namespace {SYSTEM_NAMESPACE}"))
    if "WaitsLong" in (spec.get("events") or ()) and not spec.get("waitsLongerThan"):
        causes.append(required("spec.waitsLongerThan", "says how long is long for the event WaitsLong"))
    return causes


def _webhook(webhook: Body) -> list[Cause]:
    url = text(webhook.get("url"))
    if bool(url) == ("urlFrom" in webhook):
        why = "exactly one of url and urlFrom has the address"
        return [forbidden("spec.webhook.urlFrom", why) if url else required("spec.webhook.url", why)]
    if url and not url.startswith("https://"):
        return [invalid("spec.webhook.url", url, "must be an address of https")]
    return []


RECEIVER = Checks(status_by_hub, of_new(receiver))
