"""The admission rules that ask for rights, put around those that objects have."""

from __future__ import annotations

from api import bypass, escalation, paramreads, queueuse, signing, untaken
from api.rbac import Rbac
from api.objects.objects import Objects


def install(objects: Objects, authorizer: Rbac) -> None:
    escalation.install(objects, authorizer)
    queueuse.install(objects, authorizer)
    bypass.install(objects, authorizer)
    paramreads.install(objects, authorizer)
    untaken.install(objects)
    signing.install(objects, authorizer)
