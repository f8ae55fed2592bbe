"""The fixtures of members, for the agent's tests."""

from tests.members.conftest import world as world
