"""Kubernetes' own end-to-end tests on the hub: `make conformance`.

    python -m tests.conformance.run                        the hub, all that pass on a kube-apiserver without nodes
    python -m tests.conformance.run --match 'Watchers'     some of them
    python -m tests.conformance.run --on real --record     the test bed's kube-apiserver: writes real.yaml

Ends with 1 when a spec fails that is no exception, and when an exception passes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from tests.conformance.lists import exceptions, passing, record
from tests.conformance.servers import STARTED
from tests.conformance.suite import PASSED, Outcome, all_specs, group_of, run_specs_twice

RECORD_LIMIT_S = 60.0
FOLDER = Path("build/conformance")


def main() -> int:
    asked = _arguments()
    folder = asked.folder.resolve() / asked.on
    shutil.rmtree(folder, ignore_errors=True)
    known = passing() if not asked.all else dict.fromkeys(all_specs(folder), 0.0)
    names = [name for name in known if re.search(asked.match, name)]
    began = time.monotonic()
    with _server(asked.on, asked.kubeconfig, folder) as kubeconfig:
        limit = asked.limit or RECORD_LIMIT_S
        outcomes = run_specs_twice(
            kubeconfig,
            names,
            folder,
            limit_s=lambda name: limit + 5 * known[name],
            at_once=asked.at_once,
            once=names if asked.record else exceptions(),
        )
    (folder / "outcomes.json").write_text(json.dumps([asdict(one) for one in outcomes.values()], indent=1))
    if asked.record:
        record(outcomes)
        return 0
    return report(outcomes, time.monotonic() - began)


def report(outcomes: Mapping[str, Outcome], took_s: float) -> int:
    """Print how each group fared, then what is wrong; the exit status."""
    allowed = exceptions()
    for group in sorted(set(map(group_of, outcomes))):
        ours = [one for name, one in outcomes.items() if group_of(name) == group]
        print(f"{group:24}{sum(one.state == PASSED for one in ours):4} of {len(ours)} pass")
    failed = [one for name, one in outcomes.items() if one.state != PASSED and name not in allowed]
    shrunk = [one for name, one in outcomes.items() if one.state == PASSED and name in allowed]
    for one in failed:
        print(f"\n{one.state}: {one.name}\n    {one.reason}")
    for one in shrunk:
        print(f"\npasses, and is an exception: {one.name}")
    print(f"\n{len(outcomes)} specs in {took_s:.0f} s: {len(failed)} fail that must not, {len(shrunk)} exceptions pass")
    return 1 if failed or shrunk else 0


@contextlib.contextmanager
def _server(name: str, kubeconfig: Path | None, folder: Path) -> Iterator[Path]:
    if kubeconfig is not None:
        yield kubeconfig.resolve()
        return
    with STARTED[name](folder / "server") as started:
        yield started


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=sorted(STARTED), default="hub", help="the server to start")
    parser.add_argument("--kubeconfig", type=Path, help="the administrator of a server that runs already")
    parser.add_argument("--all", action="store_true", help="every spec of the groups, not only those of real.yaml")
    parser.add_argument("--match", default="", help="a regular expression: only these specs")
    parser.add_argument("--limit", type=float, help="seconds for one spec, beside five times those of the real one")
    parser.add_argument("--at-once", type=int, default=2, help="processes side by side")
    parser.add_argument("--record", action="store_true", help="write real.yaml")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for logs and reports")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
