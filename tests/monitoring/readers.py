"""Readers of metrics."""

from __future__ import annotations


class Anybody:
    """Whoever asks may read the metrics."""

    def refusal(self, authorization: str) -> None:
        return None
