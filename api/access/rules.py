"""The admission rules that ask for rights, put around those that objects have."""

from __future__ import annotations

from api.access import escalation, paramreads, signing
from api.access.rbac import Rbac
from api.objects.objects import Objects


def install(objects: Objects, authorizer: Rbac) -> None:
    escalation.install(objects, authorizer)
    paramreads.install(objects, authorizer)
    signing.install(objects, authorizer)
