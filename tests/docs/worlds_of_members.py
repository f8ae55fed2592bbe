"""The worlds of the pages that join real clusters: `tests/e2e/test_pages_of_members.py` runs them."""

from __future__ import annotations

from tests.docs.shown import commands
from tests.docs.world import HOW_TO, Meanwhile, World

JOIN = "join-a-real-cluster.md"
GONE = "kubectl delete -f docs/how-to/fleet-member.yaml --ignore-not-found --timeout=150s"
NO_AGENT = "kubectl delete namespace fleet-agent --ignore-not-found --timeout=150s"  # of tests on the same cluster
TOKEN = "kubectl -n fleet-hub wait secret/fleet-token --for=jsonpath='{.data.token}' --timeout=60s"


def account() -> str:
    """Steps 1 and 2 of the page: an account in the cluster, and its kubeconfig."""
    made = [one.line for one in commands((HOW_TO / JOIN).read_text()) if one.section[:2] in ("1 ", "2 ")]
    return "\n".join([made[0], TOKEN, *made[1:]])


ON_REAL_MEMBERS = {
    JOIN: World(shell=GONE, meanwhile=(Meanwhile("kubectl config *", shell=TOKEN),), afterwards=GONE),
    "join-a-member-behind-a-firewall.md": World(
        shell=f"{NO_AGENT}\n{GONE}\n{account()}",
        meanwhile=(
            Meanwhile(
                "fleet clusters *",
                # Clusters of the tests run no containers: what the pod of the manifest runs, with addresses of here.
                shell="""value() { kubectl -n fleet-agent get secret fleet-agent -o jsonpath="{.data.$1}" | base64 -d; }
value token > token; value 'ca\\.crt' > ca.crt
address() { kubectl --kubeconfig "$1" config view -o jsonpath='{.clusters[0].cluster.server}'; }
fleet agent edge --hub $(address $FLEET_KUBECONFIG) --token-file token --ca-file ca.crt \\
    --api $(address member.kubeconfig | cut -d/ -f3) > agent.log 2>&1 & echo $! > agent.pid""",
            ),
        ),
        afterwards=f"kill $(cat agent.pid); {GONE}; {NO_AGENT}",
    ),
}
