"""The knowledge about a job kind, one file each: components, state, dependencies, the manifest for a member."""

from fleet.kinds.interpreter import Health, Interpreter, JobState, Standing
from fleet.kinds.lookup import INTERPRETERS, interpreter_for, interpreter_of, kind_word, named_kind, word_of

__all__ = [
    "INTERPRETERS",
    "Health",
    "Interpreter",
    "JobState",
    "Standing",
    "interpreter_for",
    "interpreter_of",
    "kind_word",
    "named_kind",
    "word_of",
]
