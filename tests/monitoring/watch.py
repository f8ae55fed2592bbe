"""A real Prometheus and a real Alertmanager on ports of this machine, with the files of deploy/monitoring.

Prometheus runs with the example's configuration and rules. Only addresses, files and times are changed: samples are
seconds apart, and `hurried` says how the rules' times are shortened.
"""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.checkout import ROOT
from tests.cli.hub import until
from tests.testbed.processes import free_port
from tests.testbed.prometheus import prometheus_binaries

DEPLOY = ROOT / "deploy" / "monitoring"
WITHIN_S = 150.0


def hurried(expression: str) -> str:
    """The rule with rates over half a minute, and with no bound of more than a minute on how late something is."""
    return re.sub(r"> \d{3,}$", "> 60", expression.replace("[5m]", "[30s]"))


class Watch:
    """`targets`: HOST:PORT by the name of the scrape job; other jobs of the example are left out. `token` and
    `authority` are the files that they are asked with."""

    def __init__(
        self, folder: Path, stack: ExitStack, targets: Mapping[str, str], *, token: Path, authority: Path
    ) -> None:
        self._prometheus, self._alertmanager = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._configure(folder, targets, token, authority)
        binaries = prometheus_binaries()
        for name, words in (
            (
                "prometheus",
                (
                    f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/prometheus",
                    f"--web.listen-address={self._prometheus}",
                    "--rules.alert.resend-delay=1s",
                ),
            ),
            (
                "alertmanager",
                (
                    f"--config.file={DEPLOY}/alertmanager.yml",
                    f"--storage.path={folder}/alertmanager",
                    f"--web.listen-address={self._alertmanager}",
                    "--cluster.listen-address=",
                ),
            ),
        ):
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            process = subprocess.Popen([binaries / name, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
        until("all targets are scraped", lambda: self.has(f"count(up == 1) == {len(targets)}"), WITHIN_S)

    def _configure(self, folder: Path, targets: Mapping[str, str], token: Path, authority: Path) -> None:
        config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "4s", "scrape_timeout": "4s", "evaluation_interval": "1s"}
        config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [self._alertmanager]
        config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] in targets]
        for job in config["scrape_configs"]:
            job["authorization"]["credentials_file"] = str(token)
            job["tls_config"]["ca_file"] = str(authority)
            job["static_configs"][0]["targets"] = [targets[job["job_name"]]]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        rules = yaml.safe_load((DEPLOY / "rules.yaml").read_text())
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)  # no alert waits before it fires
                rule["expr"] = hurried(rule["expr"])
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))

    def ask(self, query: str) -> list[Any]:
        """The rows of a query; an exception where it cannot be parsed, or nobody answers."""
        asked = urllib.parse.urlencode({"query": query})
        rows: list[Any] = _get(f"http://{self._prometheus}/api/v1/query?{asked}")["data"]["result"]
        return rows

    def has(self, query: str) -> bool:
        """Whether it has rows; not yet where Prometheus has just been started."""
        try:
            return bool(self.ask(query))
        except urllib.error.HTTPError as error:
            assert error.code == 503, query
        except OSError:
            pass
        return False

    def await_alert(self, *names: str, **labels: str) -> None:
        """Until Alertmanager has them all, active, with these labels."""

        def there(name: str) -> bool:
            return any(one.items() >= labels.items() for one in self.arrived(name) or ())

        for name in names:
            until(f"{name} arrives {labels or ''}", lambda name=name: there(name), WITHIN_S)

    def await_end(self, *names: str) -> None:
        """Until Alertmanager has none of them; before a fault, this shows that they are of the fault."""
        for name in names:
            until(f"{name} is over", lambda name=name: self.arrived(name) == [], WITHIN_S)

    def arrived(self, name: str) -> list[dict[str, str]] | None:
        """The labels of the active alerts of this name; None while Alertmanager does not answer."""
        try:
            alerts = _get(f"http://{self._alertmanager}/api/v2/alerts")
        except OSError:
            return None
        return [alert["labels"] for alert in alerts if alert["labels"]["alertname"] == name]


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return json.load(answer)
