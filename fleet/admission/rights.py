"""Fleet's admission rules that ask for rights, put around those that objects have."""

from __future__ import annotations

from api.access.rbac import Rbac
from api.objects.objects import Objects
from fleet.admission import bypass, queueuse, untakenobjects


def install(objects: Objects, authorizer: Rbac) -> None:
    queueuse.install(objects, authorizer)
    bypass.install(objects, authorizer)
    untakenobjects.install(objects)
