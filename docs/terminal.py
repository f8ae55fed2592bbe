"""Records the terminal session of README, and draws it as docs/images/walkthrough.svg.

A hub with simulated members starts, kubectl and `fleet` run as a person types them, and what they print is drawn line
by line. The picture follows the reader's light or dark scheme and asks no other address for anything. Run it as
`.venv/bin/python docs/terminal.py`; tests/docs/test_terminal.py compares the picture with what is printed now.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from fleet.hub.demo import EXAMPLES, ROOT, running_hub
from fleet.hub.up import DEFAULT_LISTEN

PICTURE = ROOT / "docs" / "images" / "walkthrough.svg"
COLUMNS = 104
CHARACTER, LINE, MARGIN = 7.8, 18, 16  # of 13 px
PROMPT = "$ "
STARTS = "fleet up --members 3"
REASON = "queueunit/pytorch-second-pytorchjob-rb-qu --for=jsonpath={.status.message}"
# What is shown, each with what must be so before it runs.
SESSION = (
    (f"kubectl apply -f {EXAMPLES}/quota-tree.yaml -f {EXAMPLES}/policy-gang-queue.yaml", ""),
    (f"kubectl apply -f {EXAMPLES}/pytorchjob.yaml", ""),
    ("kubectl get pytorchjob", "kubectl wait pytorchjob/pytorch-test --for=condition=Running --timeout=60s"),
    ("kubectl amc get pod -M", ""),
    (f"kubectl apply -f {EXAMPLES}/pytorchjob-second.yaml", ""),
    (
        "fleet explain pytorch-second | head -14",
        f"kubectl wait {REASON} --timeout=60s",
    ),
    ("kubectl wait pytorchjob/pytorch-test --for=condition=Succeeded", ""),
    ("kubectl get pytorchjob", "kubectl wait pytorchjob/pytorch-second --for=condition=Running --timeout=60s"),
)
STYLE = """\
  svg { --back: #f6f8fa; --text: #1f2328; --typed: #0550ae }
  @media (prefers-color-scheme: dark) {
    svg { --back: #161b22; --text: #e6edf3; --typed: #79c0ff }
  }
  rect { fill: var(--back) }
  text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: var(--text);
    white-space: pre }
  .typed { fill: var(--typed); font-weight: 600 }"""


def recorded(folder: Path) -> list[str]:
    """The lines of the session, each command after its prompt. The hub's files are in this folder."""
    data = folder / ".fleet"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
    environment = clean | {"KUBECONFIG": str(data / "kubeconfig"), "FLEET_DATA_DIR": str(data), "PATH": path}

    def typed(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90, check=True
        )
        return done.stdout.rstrip().splitlines()

    with running_hub(data) as (ready, _):
        here, there = ready.split()[1], f"https://{DEFAULT_LISTEN}"
        lines = [PROMPT + STARTS, ready.replace(str(folder), "~").replace(here, there), ""]
        for shown, before in SESSION:
            typed(before)
            lines += [PROMPT + shown, *typed(shown), ""]
    return lines[:-1]


def drawn(lines: list[str]) -> str:
    """The picture of the lines; a line that is too long goes on below, as in a terminal."""
    rows = []
    for line in lines:
        kind = ' class="typed"' if line.startswith(PROMPT) else ""
        rows += [(kind, line[at : at + COLUMNS]) for at in range(0, max(len(line), 1), COLUMNS)]
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, len(rows) * LINE + 2 * MARGIN
    texts = [
        f'<text{kind} x="{MARGIN}" y="{MARGIN + (number + 0.75) * LINE:g}" textLength="{len(row) * CHARACTER:.4g}" '
        f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(row)}</text>'
        for number, (kind, row) in enumerate(rows)
        if row
    ]
    title = "A terminal: a hub starts, a job runs in one member, a second one waits and says why"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{title}</title>",
            f"<style>\n{STYLE}\n</style>",
            f'<rect width="{width}" height="{height}" rx="8"/>',
            *texts,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="fleet-terminal-") as made:
        PICTURE.write_text(drawn(recorded(Path(made))))
    print(f"wrote {PICTURE.relative_to(ROOT)}")
