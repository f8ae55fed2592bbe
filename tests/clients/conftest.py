"""A hub as users start it, and a kube-apiserver of the test bed with its controllers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.servers import STARTED


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's kubeconfig, which lies in the data directory."""
    with STARTED["hub"](tmp_path_factory.mktemp("hub")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The administrator's kubeconfig."""
    with STARTED["real"](tmp_path_factory.mktemp("real")) as kubeconfig:
        yield kubeconfig
