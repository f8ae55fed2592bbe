"""`python -m fleet.monitoring --into FOLDER --docs URL` writes rules.yaml and dashboards/*.json."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from fleet.monitoring.dashboards import dashboards
from fleet.monitoring.rules import document

DOCS = "https://docs.example.com/fleet"


def files(docs: str) -> dict[str, str]:
    """The text of each file by its path. Equal arguments give equal texts."""
    head = "# Made by `python -m fleet.monitoring`, from fleet/monitoring/rules.py.\n"
    rules = yaml.safe_dump(document(docs), sort_keys=False, width=1_000)
    boards = {
        f"dashboards/{name}.json": json.dumps(board, cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
        for name, board in dashboards().items()
    }
    return {"rules.yaml": head + rules, **boards}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the rules of Prometheus and the dashboards of Grafana.")
    parser.add_argument("--into", type=Path, default=Path("deploy/monitoring"), help="folder (default: %(default)s)")
    parser.add_argument("--docs", default=DOCS, help="address of the pages of docs/ (default: %(default)s)")
    asked = parser.parse_args()
    for name, text in files(asked.docs).items():
        (asked.into / name).parent.mkdir(parents=True, exist_ok=True)
        (asked.into / name).write_text(text)
        print(asked.into / name)


if __name__ == "__main__":
    main()
