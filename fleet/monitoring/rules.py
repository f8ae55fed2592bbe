"""The rules of Prometheus, as data: recorded series, and alerts of which each has a page of its own to act by.

A controllers process that stands by may still tell the last figures of its lead, so figures of the fleet are taken from
the leader alone. Series that both kinds of process have keep the labels `job` and `instance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LEADS = "and on (instance) fleet_leader == 1"
GPU = 'resource=~".*gpu.*"'
REQUESTS = 'fleet_api_requests_total{resource!=""'  # without probes and metrics, which name no resource


@dataclass(frozen=True)
class RecordingRule:
    name: str
    query: str


@dataclass(frozen=True)
class Alert:
    """Fires while `value` compared by `fires` has rows for as long as `after` says. `value` alone has rows on any hub
    that has what it measures. `description` may name labels, as Prometheus writes them."""

    name: str
    value: str
    fires: str
    after: str
    severity: str  # critical: jobs do not start, or users get errors; warning: look today; info: look when convenient
    summary: str
    description: str

    @property
    def query(self) -> str:
        return f"{self.value} {self.fires}"


RECORDINGS = (
    RecordingRule("fleet:member_gpus:sum", f"sum by (member, model, state) (fleet_member_gpus {LEADS})"),
    RecordingRule(
        "fleet:gpus:allocated_ratio", 'sum(fleet:member_gpus:sum{state="allocated"}) / sum(fleet:member_gpus:sum)'
    ),
    RecordingRule(
        "fleet:member_gpu_utilization:mean",
        f"sum by (member) (fleet_member_gpu_utilization_ratio * fleet_member_gpus_telling {LEADS})"
        f" / sum by (member) (fleet_member_gpus_telling {LEADS})",
    ),
    RecordingRule("fleet:units:sum", f"sum by (leaf, phase) (fleet_units {LEADS})"),
    RecordingRule("fleet:quota_used:sum", f"sum by (queue, resource) (fleet_quota_used {LEADS})"),
    RecordingRule("fleet:quota_min:sum", f"sum by (queue, resource) (fleet_quota_min {LEADS})"),
    RecordingRule(
        "fleet:unit_wait_seconds:p90_1h",
        "histogram_quantile(0.9, sum by (size, le) (rate(fleet_unit_wait_seconds_bucket[1h])))",
    ),
    RecordingRule(
        "fleet:decision_seconds:p99_5m",
        "histogram_quantile(0.99, sum by (le) (rate(fleet_decision_seconds_bucket[5m])))",
    ),
    RecordingRule(
        "fleet:api_request_seconds:p99_5m",
        'histogram_quantile(0.99, sum by (verb, le) (rate(fleet_api_request_seconds_bucket{resource!=""}[5m])))',
    ),
    RecordingRule(
        "fleet:api_errors:ratio_5m",
        f'(sum(rate({REQUESTS}, code=~"5.."}}[5m])) or vector(0)) / sum(rate({REQUESTS}}}[5m]))',
    ),
    RecordingRule(
        "fleet:store_batch_seconds:mean_5m",
        "rate(fleet_store_batch_seconds_sum[5m]) / rate(fleet_store_batch_seconds_count[5m])",
    ),
)

ALERTS = (
    Alert(
        "FleetTargetDown",
        'up{job=~"fleet-.+"}',
        "== 0",
        "2m",
        "warning",
        "A process of the hub tells no metrics",
        "{{ $labels.job }} at {{ $labels.instance }} does not answer Prometheus.",
    ),
    Alert(
        "FleetNoLeader",
        "(sum(fleet_leader) or vector(0))",
        "< 1",
        "1m",
        "critical",
        "No controllers process leads",
        "Running jobs go on, and no job starts.",
    ),
    Alert(
        "FleetNobodyDecides",
        f"time() - max(fleet_decision_last_timestamp_seconds {LEADS})",
        "> 60",
        "1m",
        "critical",
        "The decider of the leader has stopped",
        "The decider has finished no look for a minute. No job starts.",
    ),
    Alert(
        "FleetDeciderFaults",
        "sum by (outcome) (increase(fleet_decision_faults_total[15m]))",
        "> 0",
        "0s",
        "warning",
        "The decider fails, and works around a failure",
        "The way around the failure is {{ $labels.outcome }}.",
    ),
    Alert(
        "FleetLoopFails",
        "sum by (loop) (increase(fleet_reconcile_failures_total[10m]))",
        "> 20",
        "10m",
        "warning",
        "A loop of the controllers fails again and again",
        "The loop {{ $labels.loop }} fails on objects, and tries them again.",
    ),
    Alert(
        "FleetLoopRestarted",
        "sum by (loop) (fleet_loop_restarts_total unless fleet_loop_restarts_total offset 15m or"
        " increase(fleet_loop_restarts_total[15m]))",
        "> 0",
        "0s",
        "warning",
        "A loop of the controllers ended",
        "The loop {{ $labels.loop }} ended by an exception, and was started again.",
    ),
    Alert(
        "FleetObjectsAside",
        f"sum by (loop) (fleet_keys_aside {LEADS})",
        "> 0",
        "10m",
        "warning",
        "Objects cannot be handled",
        "The loop {{ $labels.loop }} has set objects aside.",
    ),
    Alert(
        "FleetMemberNotReady",
        f"min by (member) (fleet_member_ready {LEADS})",
        "== 0",
        "2m",
        "warning",
        "A member is not ready",
        "The member {{ $labels.member }} gets no further jobs.",
    ),
    Alert(
        "FleetMemberSilent",
        f"time() - max by (member) (fleet_member_last_heard_timestamp_seconds {LEADS})",
        "> 60",
        "2m",
        "warning",
        "A member shows no life",
        "The hub has not heard of {{ $labels.member }} for a minute.",
    ),
    Alert(
        "FleetNodesNotReady",
        f'sum by (member) (fleet_member_nodes{{state="not_ready"}} {LEADS})'
        f" / sum by (member) (fleet_member_nodes {LEADS})",
        "> 0.2",
        "1m",
        "warning",
        "Many nodes of a member are not ready",
        "More than a fifth of the nodes of {{ $labels.member }} take no pods, since they are not ready.",
    ),
    Alert(
        "FleetJobsRefused",
        f"sum by (code) (fleet_jobs_refused {LEADS})",
        "> 2",
        "1m",
        "warning",
        "Jobs cannot be sent to their members",
        "Several jobs were refused of late: {{ $labels.code }}.",
    ),
    Alert(
        "FleetUserFloods",
        f"max by (user) (fleet_user_units_waiting {LEADS})",
        '> scalar(clamp_min(0.5 * sum(fleet:units:sum{phase="waiting"}), 1000))',
        "1m",
        "info",
        "One user has most of the jobs that wait",
        "{{ $labels.user }} has more waiting jobs than all others.",
    ),
    Alert(
        "FleetGpuSourceDown",
        f"min by (member) (fleet_member_gpu_source_up {LEADS})",
        "== 0",
        "15m",
        "warning",
        "A member tells no GPU figures",
        "The source of GPU figures that the Cluster {{ $labels.member }} names tells none.",
    ),
    Alert(
        "FleetMemberCredentialsEnd",
        f"min by (member) (fleet_member_credentials_expiry_timestamp_seconds {LEADS}) - time()",
        "< 259200",
        "10m",
        "warning",
        "The hub's credentials in a member end soon",
        "The client certificate or token with which the hub reaches {{ $labels.member }} ends within three days.",
    ),
    Alert(
        "FleetCertificateEnds",
        "fleet_api_certificate_expiry_timestamp_seconds - time()",
        "< 1209600",
        "10m",
        "warning",
        "A certificate of the hub ends soon",
        "The certificate {{ $labels.certificate }} of the API process at {{ $labels.instance }} ends within two weeks.",
    ),
    Alert(
        "FleetDatabaseAway",
        'fleet_store_connections{connection="follow"}',
        "== 0",
        "1m",
        "critical",
        "A process has no connection with the database",
        "{{ $labels.job }} at {{ $labels.instance }} sees no changes. The hub refuses writes.",
    ),
    Alert(
        "FleetDatabaseSlow",
        "fleet:store_batch_seconds:mean_5m",
        "> 0.5",
        "10m",
        "warning",
        "The database is slow",
        "Transactions of {{ $labels.job }} at {{ $labels.instance }} take more than half a second.",
    ),
    Alert(
        "FleetHistoryFails",
        f"max(fleet_history_failing {LEADS})",
        "> 0",
        "5m",
        "warning",
        "The history is not written",
        "Reports of usage lack the jobs that end now, until the history catches up.",
    ),
    Alert(
        "FleetHistoryBehind",
        f"max(fleet_history_lag_seconds {LEADS})",
        "> 300",
        "10m",
        "warning",
        "The history is behind",
        "The history is more than five minutes behind the log of changes, which keeps 15 minutes.",
    ),
    Alert(
        "FleetNotificationsFail",
        'sum(increase(fleet_notifications_total{outcome="failed"}[30m]))',
        "> 3",
        "5m",
        "warning",
        "Notifications are not delivered",
        "Several tries to deliver notifications failed.",
    ),
    Alert(
        "FleetApiErrors",
        "fleet:api_errors:ratio_5m",
        "> 0.05",
        "5m",
        "critical",
        "Users get errors of the hub",
        "More than a twentieth of the requests are answered with a 5xx status.",
    ),
    Alert(
        "FleetApiSlow",
        "fleet:api_request_seconds:p99_5m",
        "> 2",
        "10m",
        "warning",
        "The API is slow",
        "One in a hundred requests with the verb {{ $labels.verb }} takes longer than two seconds.",
    ),
    Alert(
        "FleetWebhookFails",
        'sum by (webhook) (increase(fleet_api_webhook_calls_total{outcome="failed"}[5m])'
        ' unless on (webhook) increase(fleet_api_webhook_calls_total{outcome="answered"}[5m]) > 0)',
        "> 2",
        "0s",
        "critical",
        "An admission webhook fails",
        "Each call of the webhook {{ $labels.webhook }} failed of late. Where"
        " its failurePolicy is Fail, users cannot write what it is about.",
    ),
    Alert(
        "FleetNeedlessEvictions",
        "sum(increase(fleet_decider_needless_evictions_total[1h]))",
        "> 3",
        "0s",
        "warning",
        "Jobs were evicted without need",
        "Plans evicted several jobs though there was room and quota without that.",
    ),
    Alert(
        "FleetGuaranteeWaits",
        f"(fleet:quota_used:sum{{{GPU}}} / fleet:quota_min:sum and on (queue)"
        ' label_replace(fleet:units:sum{phase="waiting"}, "queue", "$1", "leaf", "(.*)"))',
        "< 1",
        "1h",
        "info",
        "Jobs wait in a queue that uses less than its guarantee",
        "The queue {{ $labels.queue }} uses less {{ $labels.resource }} than its min, and jobs wait in it.",
    ),
    Alert(
        "FleetAuditEventsLost",
        'sum by (to, outcome) (increase(fleet_api_audit_events_total{outcome!="Written"}[15m]))',
        "> 0",
        "0s",
        "warning",
        "Events of the audit log are lost",
        "Events did not reach the {{ $labels.to }}: {{ $labels.outcome }}.",
    ),
)


def document(docs: str) -> dict[str, Any]:
    """The file of rules. `docs`: the address under which the pages of docs/ are served."""
    alerts = [
        {
            "alert": alert.name,
            "expr": alert.query,
            "for": alert.after,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "description": alert.description,
                "runbook_url": f"{docs.rstrip('/')}/runbooks/{alert.name}.html",
            },
        }
        for alert in ALERTS
    ]
    recorded = [{"record": one.name, "expr": one.query} for one in RECORDINGS]
    return {"groups": [{"name": "fleet-recorded", "rules": recorded}, {"name": "fleet-alerts", "rules": alerts}]}
