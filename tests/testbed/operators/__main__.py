"""`python -m tests.testbed.operators [NAME …]`: build the named ones, or all, and print their folders."""

import sys

from tests.testbed.operators.build import SOURCES, built

unknown = [name for name in sys.argv[1:] if name not in SOURCES]
if unknown:
    raise SystemExit(f"test bed: no operator {', '.join(unknown)}; there are {', '.join(SOURCES)}")
for name in sys.argv[1:] or SOURCES:
    print(built(name).root)
