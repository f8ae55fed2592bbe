"""The dashboards of Grafana: rows of panels, each with the question that it answers and its queries."""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as boards
from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel as Timeseries
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import Dashboard, DataSourceRef

from fleet.monitoring.rules import GPU, LEADS, REQUESTS

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True)
class Panel:
    """`queries`: pairs of a legend, with labels in braces, and a query."""

    title: str
    says: str
    unit: str
    queries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Board:
    name: str
    title: str
    says: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]


def _quantiles(metric: str, by: str = "", where: str = "") -> tuple[tuple[str, str], ...]:
    """The median and the 99th percentile of a histogram over five minutes."""
    return tuple(
        (
            f"{{{{{by}}}}} {name}" if by else name,
            f"histogram_quantile({q}, sum by ({f'{by}, ' if by else ''}le) (rate({metric}_bucket{where}[5m])))",
        )
        for name, q in (("median", 0.5), ("99 %", 0.99))
    )


def _rate(metric: str, by: str, where: str = "") -> tuple[tuple[str, str], ...]:
    return ((f"{{{{{by}}}}}", f"sum by ({by}) (rate({metric}{where}[5m]))"),)


def _counted(metric: str, by: str) -> tuple[tuple[str, str], ...]:
    return ((f"{{{{{by}}}}}", f"sum by ({by}) (increase({metric}[1h]))"),)


BOARDS = (
    Board(
        "fleet",
        "Fleet: overview",
        "GPUs, queues and jobs of the whole fleet",
        (
            (
                "GPUs",
                (
                    Panel(
                        "GPUs by state",
                        "How many GPUs are used, free or cordoned?",
                        units.Short,
                        (("{{state}}", "sum by (state) (fleet:member_gpus:sum)"),),
                    ),
                    Panel(
                        "Allocated",
                        "Which part of all GPUs is allocated?",
                        units.PercentUnit,
                        (("allocated", "fleet:gpus:allocated_ratio"),),
                    ),
                    Panel(
                        "Free but fragmented",
                        "How many free GPUs are on nodes where others are taken?",
                        units.Short,
                        (("{{member}}", f"sum by (member) (fleet_member_gpus_fragmented {LEADS})"),),
                    ),
                ),
            ),
            (
                "Queues",
                (
                    Panel(
                        "Waiting jobs by queue",
                        "Where do jobs wait?",
                        units.Short,
                        (("{{leaf}}", 'sum by (leaf) (fleet:units:sum{phase="waiting"})'),),
                    ),
                    Panel(
                        "Waiting jobs by reason",
                        "Why do jobs wait?",
                        units.Short,
                        (("{{code}}", f"sum by (code) (fleet_jobs_waiting {LEADS})"),),
                    ),
                    Panel(
                        "Time to the first member (90 %)",
                        "How long do jobs of each size wait?",
                        units.Seconds,
                        (("{{size}} GPUs", "fleet:unit_wait_seconds:p90_1h"),),
                    ),
                    Panel(
                        "GPUs of queues",
                        "Does each queue have its guarantee? Rows include the queues below.",
                        units.Short,
                        (
                            ("{{queue}} used", f"fleet:quota_used:sum{{{GPU}}}"),
                            ("{{queue}} min", f"fleet:quota_min:sum{{{GPU}}}"),
                        ),
                    ),
                    Panel(
                        "Fair share of queues",
                        "How many GPUs may each queue count on now?",
                        units.Short,
                        (("{{queue}}", f"sum by (queue) (fleet_quota_fair_share{{{GPU}}} {LEADS})"),),
                    ),
                ),
            ),
            (
                "Jobs",
                (
                    Panel(
                        "Jobs placed",
                        "Do jobs start?",
                        units.Short,
                        (("an hour", "sum(increase(fleet_placements_total[1h]))"),),
                    ),
                    Panel(
                        "Jobs that ended",
                        "How do jobs end?",
                        units.Short,
                        _counted("fleet_jobs_finished_total", "outcome"),
                    ),
                    Panel(
                        "Evictions",
                        "Why do jobs leave their members?",
                        units.Short,
                        _counted("fleet_evictions_total", "reason"),
                    ),
                    Panel(
                        "GPU time lost",
                        "How much work is done again, and why?",
                        units.Seconds,
                        _counted("fleet_lost_gpu_seconds_total", "reason"),
                    ),
                    Panel(
                        "Notifications",
                        "Are people told?",
                        units.Short,
                        _counted("fleet_notifications_total", "outcome"),
                    ),
                ),
            ),
        ),
    ),
    Board(
        "decisions",
        "Fleet: decisions",
        "The leader, its decider, the solver and the loops of the controllers",
        (
            (
                "Decider",
                (
                    Panel(
                        "Leaders", "Does exactly one process lead?", units.Short, (("{{instance}}", "fleet_leader"),)
                    ),
                    Panel(
                        "Since the last look",
                        "Does the decider look? It does at least every 20 s.",
                        units.Seconds,
                        (("seconds", f"time() - max(fleet_decision_last_timestamp_seconds {LEADS})"),),
                    ),
                    Panel(
                        "Looks",
                        "What comes of the looks?",
                        units.RequestsPerSecond,
                        _rate("fleet_decision_cycles_total", "outcome"),
                    ),
                    Panel(
                        "Time of a decision",
                        "How long does a decision take?",
                        units.Seconds,
                        _quantiles("fleet_decision_seconds"),
                    ),
                    Panel(
                        "Time by phase",
                        "Where does that time go?",
                        units.Seconds,
                        (("{{phase}}", "sum by (phase) (rate(fleet_decision_phase_seconds_sum[5m]))"),),
                    ),
                    Panel(
                        "Faults",
                        "Does the decider fail?",
                        units.Short,
                        _counted("fleet_decision_faults_total", "outcome"),
                    ),
                ),
            ),
            (
                "Plans",
                (
                    Panel(
                        "Answers of the solver",
                        "Does the solver answer in time?",
                        units.Short,
                        _counted("fleet_solver_answers_total", "outcome"),
                    ),
                    Panel(
                        "Source of answers",
                        "Whose answers are carried out?",
                        units.Short,
                        _counted("fleet_decisions_total", "shipped"),
                    ),
                    Panel(
                        "Refused at the commit",
                        "Which changes make plans stale?",
                        units.Short,
                        _counted("fleet_commit_refusals_total", "cause"),
                    ),
                    Panel(
                        "Room for waiting jobs",
                        "For how many waiting jobs is room claimed or collected?",
                        units.Short,
                        (
                            ("claiming", f"sum(fleet_units_claiming {LEADS})"),
                            ("collecting", f"sum(fleet_units_collecting {LEADS})"),
                        ),
                    ),
                    Panel(
                        "Needless evictions",
                        "Does the decider evict without need?",
                        units.Short,
                        (("an hour", "sum(increase(fleet_decider_needless_evictions_total[1h]))"),),
                    ),
                ),
            ),
            (
                "Loops",
                (
                    Panel(
                        "Waiting keys",
                        "Is a loop behind?",
                        units.Short,
                        (("{{loop}}", f"sum by (loop) (fleet_queue_depth {LEADS})"),),
                    ),
                    Panel(
                        "Failures", "Which loop fails?", units.Short, _counted("fleet_reconcile_failures_total", "loop")
                    ),
                    Panel(
                        "Objects set aside",
                        "Which loop has objects that it cannot handle?",
                        units.Short,
                        (("{{loop}}", f"sum by (loop) (fleet_keys_aside {LEADS})"),),
                    ),
                    Panel(
                        "Restarts of loops",
                        "Which loop ended by an exception?",
                        units.Short,
                        (("{{loop}}", "sum by (loop) (fleet_loop_restarts_total)"),),
                    ),
                ),
            ),
        ),
    ),
    Board(
        "api",
        "Fleet: API",
        "Requests, their answers and times, and the bounds of the API processes",
        (
            (
                "Requests",
                (
                    Panel(
                        "Requests by verb",
                        "What do users ask?",
                        units.RequestsPerSecond,
                        _rate("fleet_api_requests_total", "verb", '{resource!=""}'),
                    ),
                    Panel(
                        "Answers by status",
                        "What do users get?",
                        units.RequestsPerSecond,
                        (("{{code}}", f"sum by (code) (rate({REQUESTS}}}[5m]))"),),
                    ),
                    Panel(
                        "Errors",
                        "Which part of the answers are errors of the hub?",
                        units.PercentUnit,
                        (("5xx", "fleet:api_errors:ratio_5m"),),
                    ),
                    Panel(
                        "Time to answer",
                        "How long do users wait?",
                        units.Seconds,
                        _quantiles("fleet_api_request_seconds", "verb", '{resource!=""}'),
                    ),
                ),
            ),
            (
                "Bounds",
                (
                    Panel(
                        "Open connections, watches and relays",
                        "Who is connected?",
                        units.Short,
                        (
                            ("connections", "sum(fleet_api_connections)"),
                            ("watches", "sum(fleet_api_watches)"),
                            ("relays", "sum(fleet_api_relays)"),
                        ),
                    ),
                    Panel(
                        "Seats in use",
                        "Which priority level is full?",
                        units.PercentUnit,
                        (
                            (
                                "{{priority_level}}",
                                "sum by (priority_level) (apiserver_flowcontrol_current_executing_seats)"
                                " / sum by (priority_level) (apiserver_flowcontrol_nominal_limit_seats)",
                            ),
                        ),
                    ),
                    Panel(
                        "Requests in queues",
                        "Who waits for a seat?",
                        units.Short,
                        (
                            (
                                "{{priority_level}}",
                                "sum by (priority_level) (apiserver_flowcontrol_current_inqueue_requests)",
                            ),
                        ),
                    ),
                    Panel(
                        "Refused with 429",
                        "Whose requests are refused?",
                        units.Short,
                        _counted("apiserver_flowcontrol_rejected_requests_total", "priority_level"),
                    ),
                    Panel(
                        "Refused before authentication",
                        "Which bound do clients break?",
                        units.Short,
                        _counted("fleet_api_refused_total", "bound"),
                    ),
                    Panel(
                        "Time until certificates end",
                        "Is a certificate to be renewed?",
                        units.Seconds,
                        (("{{instance}} {{certificate}}", "fleet_api_certificate_expiry_timestamp_seconds - time()"),),
                    ),
                    Panel(
                        "Events of the audit log",
                        "Is each event written?",
                        units.Short,
                        _counted("fleet_api_audit_events_total", "outcome"),
                    ),
                ),
            ),
        ),
    ),
    Board(
        "members",
        "Fleet: members",
        "Health, GPUs and agents of each member",
        (
            (
                "Health",
                (
                    Panel(
                        "Ready",
                        "Which members are ready?",
                        units.Short,
                        (("{{member}}", f"min by (member) (fleet_member_ready {LEADS})"),),
                    ),
                    Panel(
                        "Since the last sign of life",
                        "Which members are silent?",
                        units.Seconds,
                        (
                            (
                                "{{member}}",
                                f"time() - max by (member) (fleet_member_last_heard_timestamp_seconds {LEADS})",
                            ),
                        ),
                    ),
                    Panel(
                        "Time to a stored job",
                        "How long until a job that got a member is there?",
                        units.Seconds,
                        _quantiles("fleet_member_dispatch_seconds", "member"),
                    ),
                ),
            ),
            (
                "GPUs",
                (
                    Panel(
                        "Free GPUs",
                        "Where is room?",
                        units.Short,
                        (("{{member}} {{model}}", 'fleet:member_gpus:sum{state="free"}'),),
                    ),
                    Panel(
                        "Allocated",
                        "How full is each member?",
                        units.PercentUnit,
                        (
                            (
                                "{{member}}",
                                'sum by (member) (fleet:member_gpus:sum{state="allocated"})'
                                " / sum by (member) (fleet:member_gpus:sum)",
                            ),
                        ),
                    ),
                    Panel(
                        "Cordoned GPUs",
                        "Where are GPUs on nodes that take no pods?",
                        units.Short,
                        (("{{member}}", 'sum by (member) (fleet:member_gpus:sum{state="cordoned"})'),),
                    ),
                ),
            ),
            (
                "Use of GPUs",
                (
                    Panel(
                        "Utilization",
                        "Are the GPUs of each member used?",
                        units.PercentUnit,
                        (("{{member}}", "fleet:member_gpu_utilization:mean"),),
                    ),
                    Panel(
                        "Idle GPUs",
                        "How many GPUs are held by a pod and used by less than 5 %?",
                        units.Short,
                        (("{{member}} {{model}}", f"sum by (member, model) (fleet_member_gpus_idle {LEADS})"),),
                    ),
                    Panel(
                        "Power",
                        "How much power do the GPUs take?",
                        units.Watt,
                        (("{{member}}", f"sum by (member) (fleet_member_gpu_power_watts {LEADS})"),),
                    ),
                ),
            ),
            (
                "Agents",
                (
                    Panel(
                        "Connected agents",
                        "How many members are reached through agents?",
                        units.Short,
                        (("{{instance}}", "fleet_api_agents"),),
                    ),
                    Panel(
                        "Bytes through agents",
                        "How much goes through each agent?",
                        units.BytesPerSecondSI,
                        (
                            ("{{member}} to", "sum by (member) (rate(fleet_agent_sent_bytes_total[5m]))"),
                            ("{{member}} from", "sum by (member) (rate(fleet_agent_received_bytes_total[5m]))"),
                        ),
                    ),
                ),
            ),
        ),
    ),
    Board(
        "database",
        "Fleet: database and history",
        "The store of each process, the history, and the processes",
        (
            (
                "Store",
                (
                    Panel(
                        "Open connections",
                        "Does each process reach the database?",
                        units.Short,
                        (("{{job}} {{instance}} {{connection}}", "fleet_store_connections"),),
                    ),
                    Panel(
                        "Failures of connections",
                        "Does the database end connections?",
                        units.Short,
                        _counted("fleet_store_failures_total", "connection"),
                    ),
                    Panel(
                        "Time of a transaction",
                        "Is the database slow?",
                        units.Seconds,
                        (("{{job}} {{instance}}", "fleet:store_batch_seconds:mean_5m"),),
                    ),
                    Panel(
                        "Objects written",
                        "How much is written?",
                        units.WritesPerSecond,
                        _rate("fleet_store_writes_total", "job"),
                    ),
                    Panel(
                        "Waiting commits",
                        "Do commits queue up?",
                        units.Short,
                        (("{{job}} {{instance}}", "fleet_store_commits_waiting"),),
                    ),
                    Panel(
                        "Size of the database",
                        "Does the database grow?",
                        units.BytesIEC,
                        (("bytes", "max(fleet_store_database_bytes)"),),
                    ),
                ),
            ),
            (
                "History",
                (
                    Panel(
                        "Lag",
                        "How far is the history behind?",
                        units.Seconds,
                        (("seconds", f"max(fleet_history_lag_seconds {LEADS})"),),
                    ),
                    Panel(
                        "Failing",
                        "Is the history written? 1: it is not.",
                        units.Short,
                        (("failing", f"max(fleet_history_failing {LEADS})"),),
                    ),
                    Panel(
                        "Decision records lost",
                        "Is each decision recorded?",
                        units.Short,
                        (("an hour", "sum(increase(fleet_decision_records_lost_total[1h]))"),),
                    ),
                ),
            ),
            (
                "Processes",
                (
                    Panel(
                        "Memory",
                        "How much memory do the controllers take?",
                        units.BytesIEC,
                        (("{{instance}}", 'process_resident_memory_bytes{job="fleet-controllers"}'),),
                    ),
                    Panel(
                        "CPU",
                        "How many cores do the controllers take?",
                        units.Short,
                        (("{{instance}}", 'rate(process_cpu_seconds_total{job="fleet-controllers"}[5m])'),),
                    ),
                ),
            ),
        ),
    ),
)


def dashboards() -> dict[str, Dashboard]:
    """By the name of its file."""
    return {board.name: _built(board) for board in BOARDS}


def _built(board: Board) -> Dashboard:
    dashboard = (
        boards.Dashboard(board.title)
        .uid(f"fleet-{board.name}")
        .description(board.says)
        .tags(["fleet"])
        .time("now-6h", "now")
        .refresh("30s")
        .timezone("browser")
        .readonly()
        .with_variable(boards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for title, panels in board.rows:
        dashboard = dashboard.with_row(boards.Row(title))
        for panel in panels:
            dashboard = dashboard.with_panel(_panel(panel))
    built = dashboard.build()
    for number, placed in enumerate(built.panels or (), start=1):
        placed.id_val = number
    return built


def _panel(panel: Panel) -> Timeseries:
    timeseries = (
        Timeseries()
        .title(panel.title)
        .description(panel.says)
        .unit(panel.unit)
        .min(0)
        .datasource(SOURCE)
        .legend(
            VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True)
        )
        .height(8)
        .span(8)
    )
    for number, (legend, query) in enumerate(panel.queries):
        timeseries = timeseries.with_target(
            Dataquery().expr(query).legend_format(legend).ref_id(chr(ord("A") + number))
        )
    return timeseries
