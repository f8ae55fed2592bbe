"""The hub of the admission tests: every kind and rule, over a store in memory."""

from tests.admission.conftest import hub

__all__ = ["hub"]
