"""The command line.

A program that is interrupted while it still loads its modules ends in silence, as any other program does; `main` turns
a later Ctrl-C into its exit status. Only the program `fleet` itself is meant: other importers keep their handler.
"""

import signal
import sys

if sys.argv[0].endswith("/fleet") and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
