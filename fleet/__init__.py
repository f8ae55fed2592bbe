"""Fleet: one queue and one quota for training jobs over many Kubernetes clusters."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """`__version__` is asked for late: a checkout asks git."""
        if name != "__version__":
            raise AttributeError(f"module 'fleet' has no attribute {name!r}")
        from fleet.values.release import running

        return running().version
