"""The processes that tests start keep the bytecode of the sources, whatever the environment says: to compile them at
each start takes half a second of processor time."""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
