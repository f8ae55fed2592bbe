"""The command line.

A program that is interrupted while it still loads its modules ends in silence, as any other program does; `main` turns
a later Ctrl-C into its exit status. An exception would not do: Python drops one that is raised in a callback of its
import system, and the Ctrl-C is lost. Only the program `fleet` itself is meant: other importers keep their handler.
"""

import _signal  # type: ignore[import-not-found]  # `signal` takes its time, in which Ctrl-C would print a traceback
import sys

_is_program = sys.argv[0].endswith("/fleet") or (sys.argv[0] == "-m" and "fleet.cli.main" in sys.orig_argv)
if _is_program and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
