/** The reports of the past: usage, waits and efficiency, as bars and as CSV. */

import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { get, type HistoryReport } from "../api";
import { useLeaves } from "../leaves";
import { Mark, shades } from "../shades";
import { Bar, Empty, Loaded } from "../shown";
import { duration } from "../times";
import { UseChart } from "../usechart";

type Row = { key: string | null } & Record<string, unknown>;

interface Column {
  name: string;
  field: string;
  show: (value: number) => string;
}

const hours = (value: number) => value.toLocaleString(undefined, { maximumFractionDigits: 1 });
const percent = (value: number) => `${(100 * value).toFixed(1)} %`;
const whole = (value: number) => value.toLocaleString();

/** The first column of a report is the one that its bars show. */
const REPORTS: Record<string, Column[]> = {
  usage: [
    { name: "GPU-hours", field: "gpuHours", show: hours },
    { name: "Capacity", field: "capacityGpuHours", show: hours },
    { name: "Share", field: "share", show: percent },
  ],
  waits: [
    { name: "Mean wait", field: "meanS", show: duration },
    { name: "Half waited at most", field: "p50S", show: duration },
    { name: "90 % at most", field: "p90S", show: duration },
    { name: "Submitted", field: "submitted", show: whole },
    { name: "Started", field: "started", show: whole },
    { name: "Waiting", field: "waiting", show: whole },
  ],
  efficiency: [
    { name: "GPU-hours", field: "gpuHours", show: hours },
    { name: "Lost", field: "lostGpuHours", show: hours },
    { name: "Efficiency", field: "efficiency", show: percent },
  ],
};
const BY = ["user", "queue", "namespace", "member", "model"];
const DAYS: Record<string, string> = {
  "1": "last day",
  "7": "last 7 days",
  "30": "last 30 days",
  "90": "last 90 days",
};
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

const known = (value: unknown) => (typeof value === "number" ? value : null);
const text = (column: Column, row: Row) => {
  const value = known(row[column.field]);
  return value === null ? "–" : column.show(value);
};

export function UsagePage() {
  const [address, setAddress] = useSearchParams();
  const pick = (name: string, among: string[], otherwise: string) =>
    among.includes(address.get(name) ?? "") ? (address.get(name) as string) : otherwise;
  const report = pick("report", Object.keys(REPORTS), "usage");
  const by = pick("by", BY, "queue");
  const days = pick("days", Object.keys(DAYS), "7");
  const set = (name: string, value: string) => setAddress({ report, by, days, [name]: value }, { replace: true });
  const asked = useQuery({
    queryKey: ["jobs", "report", report, by, days],
    queryFn: () => {
      // The begin is a full hour, so that the same question has the same answer for a while.
      const from = new Date(Math.floor((Date.now() - Number(days) * DAY_MS) / HOUR_MS) * HOUR_MS);
      return get<HistoryReport>(`/fleet/v1/reports/${report}?by=${by}&from=${from.toISOString().replace(".000", "")}`);
    },
    staleTime: 60_000,
  });
  return (
    <>
      <h1>Usage</h1>
      <div className="filters">
        <NativeSelect
          label="Report"
          value={report}
          data={Object.keys(REPORTS)}
          onChange={(event) => set("report", event.currentTarget.value)}
        />
        <NativeSelect label="By" value={by} data={BY} onChange={(event) => set("by", event.currentTarget.value)} />
        <NativeSelect
          label="Period"
          value={days}
          data={Object.entries(DAYS).map(([value, label]) => ({ value, label }))}
          onChange={(event) => set("days", event.currentTarget.value)}
        />
      </div>
      {report === "usage" && (
        <UseChart
          by={by === "member" ? "member" : "queue"}
          hours={Number(days) * 24}
          label={`GPUs in use by ${by === "member" ? "member" : "queue"}, ${DAYS[days]}`}
        />
      )}
      <Loaded query={asked} height={300}>
        {(data) => <Figures data={data} report={report} by={by} />}
      </Loaded>
    </>
  );
}

function Figures({ data, report, by }: { data: HistoryReport; report: string; by: string }) {
  const columns = REPORTS[report] ?? [];
  const first = columns[0];
  const rows = data.rows as unknown as Row[];
  const leaves = useLeaves();
  const tones =
    by === "queue" && leaves !== undefined
      ? shades(
          rows.map((row) => row.key),
          leaves,
        )
      : undefined;
  if (rows.length === 0 || first === undefined)
    return <Empty title="Nothing in this period">Jobs that run show here a minute later at most.</Empty>;
  const most = Math.max(...rows.map((row) => known(row[first.field]) ?? 0));
  return (
    <>
      {data.partial && <p className="note">These are the jobs that you may see. There may be more.</p>}
      <section className="wide" tabIndex={0} aria-label={`The report ${report} by ${by}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">{by}</th>
              <td />
              {columns.map((column) => (
                <th key={column.field} scope="col" className="number">
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.key}>
                <th scope="row">
                  {by === "queue" && <Mark shade={tones?.get(row.key)} />} {row.key ?? "unknown"}
                </th>
                <td className="bars">
                  <Bar
                    parts={[["used", known(row[first.field]) ?? 0]]}
                    whole={most}
                    label={`${row.key ?? "unknown"}: ${text(first, row)}`}
                  />
                </td>
                {columns.map((column) => (
                  <td key={column.field} className="number">
                    {text(column, row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">all</th>
              <td>{data.left > 0 && `${whole(data.left)} more rows are in this sum`}</td>
              {columns.map((column) => (
                <td key={column.field} className="number">
                  {text(column, data.total as unknown as Row)}
                </td>
              ))}
            </tr>
          </tfoot>
        </table>
      </section>
      <p className="note">
        From {new Date(data.from).toLocaleString()} to {new Date(data.to).toLocaleString()}
        {data.recordedSince && `; recorded since ${new Date(data.recordedSince).toLocaleString()}`}
      </p>
      <Button variant="default" onClick={() => save(`${report}-by-${by}.csv`, csv(by, columns, rows))}>
        Save as CSV
      </Button>
    </>
  );
}

/** Texts are quoted, and none begins with what a spreadsheet takes for a formula. */
function csv(by: string, columns: Column[], rows: Row[]): string {
  const quoted = (value: string) => `"${value.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const lines = rows.map((row) =>
    [quoted(row.key ?? ""), ...columns.map((column) => String(known(row[column.field]) ?? ""))].join(","),
  );
  return `${[[by, ...columns.map((column) => column.field)].join(","), ...lines].join("\r\n")}\r\n`;
}

function save(name: string, content: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
