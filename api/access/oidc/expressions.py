"""The CEL expressions of an AuthenticationConfiguration: read when the file is, run within a budget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fleet.values.cel.program import Budget, NoValue, Program, compile_expression
from fleet.values.cel.types import DYN

STEPS_MAX = 100_000  # of all expressions for one token, about ten milliseconds
_VERIFIED = re.compile(r"\bclaims\s*\.\s*\??\s*email_verified\b")
_EMAIL = re.compile(r"\bclaims\s*\.\s*\??\s*email\b")


class ExpressionFailure(Exception):
    """An expression could not be evaluated for a token."""


@dataclass(frozen=True, slots=True)
class ClaimExpression:
    """An expression over one variable: `claims` or `user`."""

    text: str
    variable: str
    program: Program

    def value(self, of: Any, budget: Budget) -> Any:
        """Raises ExpressionFailure."""
        try:
            return self.program.evaluate({self.variable: of}, budget)
        except NoValue as error:
            raise ExpressionFailure(f"{self.text}: {error}") from None

    @property
    def uses_email(self) -> bool:
        return bool(_EMAIL.search(self.text))

    @property
    def uses_email_verified(self) -> bool:
        return bool(_VERIFIED.search(self.text))


def compiled(text: str, variable: str) -> ClaimExpression:
    """Raises BadExpression, also for an expression that names another variable."""
    return ClaimExpression(text, variable, compile_expression(text, {variable: DYN}))
