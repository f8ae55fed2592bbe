"""The options with which controllers write."""

from __future__ import annotations

from api.objects.writing import Options, User

OPTIONS = Options(user=User("controllers", ("system:masters",)), manager="controllers")
