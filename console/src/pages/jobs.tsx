/** The jobs: a list of any length. Only rows in view are drawn, and only pages in view are asked for again. */

import { Button, NativeSelect } from "@mantine/core";
import { useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { count } from "../amounts";
import { get, type Job, type JobList, jobPath } from "../api";
import { Filter } from "../filter";
import { Empty, State, Trouble } from "../shown";
import { Ago } from "../times";

const FIRST_PAGE = 100; // more than a screen shows, and soon there
const PAGE = 1_000;
const ROW_PX = 44;
const KEPT_MS = 30 * 60_000; // a page that was read, for a reader who comes back to it
const MORE_ROWS = 20; // drawn as grey rows where the hub cannot count the rest
const FILTERS = ["namespace", "queue", "member", "kind", "name"] as const;
const STATES = [
  "Unclaimed",
  "Queued",
  "BackOff",
  "Held",
  "Reserved",
  "Waiting",
  "Placed",
  "Created",
  "Running",
  "Suspended",
  "Evicting",
  "Succeeded",
  "Failed",
  "Deleting",
];

const startOf = (page: number) => (page === 0 ? 0 : FIRST_PAGE + (page - 1) * PAGE);
const pageOf = (row: number) => (row < FIRST_PAGE ? 0 : 1 + Math.floor((row - FIRST_PAGE) / PAGE));

/** The jobs of the rows `first` to `last`, and how many rows there are. */
function useRows(filter: string, first: number, last: number) {
  const client = useQueryClient();
  const key = (page: number) => ["jobs", "page", filter, page];
  const seen = (page: number) => client.getQueryData<JobList>(key(page));
  const asked = (page: number) => ({
    queryKey: key(page),
    queryFn: ({ signal }: { signal: AbortSignal }) => {
      // After the last job of the page before, where that is known: so the hub need not count.
      const token = page > 0 ? seen(page - 1)?.continue : undefined;
      const where = token ? `&continue=${encodeURIComponent(token)}` : `&offset=${startOf(page)}`;
      return get<JobList>(`/fleet/v1/jobs?${filter}&limit=${page === 0 ? FIRST_PAGE : PAGE}${where}`, signal);
    },
    gcTime: KEPT_MS,
  });
  const head = useQuery(asked(0));
  const from = Math.max(1, pageOf(first));
  const inView = Array.from({ length: Math.max(0, pageOf(last) - from + 1) }, (_, index) => asked(from + index));
  const found = useQueries({ queries: head.data?.continue ? inView : [] });
  const jobs: Record<number, Job[] | undefined> = { 0: head.data?.items };
  for (const [index, one] of found.entries()) jobs[from + index] = one.data?.items;
  const counted = head.data !== undefined && (head.data.remaining !== null || !head.data.continue);
  let total = head.data === undefined ? 0 : head.data.items.length + (head.data.remaining ?? 0);
  let whole = counted;
  if (!counted) {
    // Of a list that the hub does not count, as many as were read.
    let page = 0;
    while (seen(page)?.continue && seen(page + 1)) page++;
    const end = seen(page);
    whole = end !== undefined && !end.continue;
    total = startOf(page) + (end?.items.length ?? 0);
  }
  return {
    job: (row: number) => (jobs[pageOf(row)] ?? seen(pageOf(row))?.items)?.[row - startOf(pageOf(row))],
    total,
    rows: total + (whole ? 0 : MORE_ROWS),
    whole,
    error: head.error ?? found.find((page) => page.error)?.error ?? null,
    head: head.data,
  };
}

export function JobsPage() {
  const [address, setAddress] = useSearchParams();
  const filter = useMemo(() => {
    const kept = new URLSearchParams();
    for (const [name, value] of address)
      if ((FILTERS as readonly string[]).includes(name) || name === "state") kept.append(name, value);
    return kept.toString();
  }, [address]);
  const set = (name: string, value: string) =>
    setAddress(
      (before) => {
        const after = new URLSearchParams(before);
        if (value) after.set(name, value);
        else after.delete(name);
        return after;
      },
      { replace: true },
    );
  return (
    <>
      <h1>Jobs</h1>
      <form className="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <NativeSelect
          label="State"
          value={address.get("state") ?? ""}
          onChange={(event) => set("state", event.currentTarget.value)}
          data={[{ value: "", label: "all" }, ...STATES]}
        />
        {FILTERS.map((name) => (
          <Filter key={name} name={name} value={address.get(name) ?? ""} set={set} />
        ))}
        <Button variant="default" disabled={!filter} onClick={() => setAddress({}, { replace: true })}>
          Clear
        </Button>
      </form>
      <Rows key={filter} filter={filter} />
    </>
  );
}

function Rows({ filter }: { filter: string }) {
  const scroll = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, last: 0 });
  const { job, total, rows, whole, error, head } = useRows(filter, range.first, range.last);
  const virtual = useVirtualizer({
    count: rows,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => setRange({ first, last }), [first, last]);
  if (error && head === undefined) return <Trouble error={error} />;
  if (head && rows === 0) return <Nothing filtered={filter !== ""} partial={head.partial} />;
  return (
    <>
      <p className="note" aria-live="polite">
        {head ? `${whole ? "" : "more than "}${count(total, "job")}` : "Asking the hub …"}
        {head?.partial && ". There may be more, in namespaces that you may not see"}
        {head?.notice && `. ${head.notice[0]?.toUpperCase()}${head.notice.slice(1)}`}
      </p>
      <div className="jobs" role="table" aria-label="Jobs" aria-rowcount={whole ? rows + 1 : -1} aria-busy={!head}>
        <div role="rowgroup">
          <div className="row head" role="row" aria-rowindex={1}>
            {["Job", "State", "Queue", "Place", "Member", "GPUs", "User", "Created", "Reason"].map((name) => (
              <span key={name} role="columnheader" className={name === "State" ? "state-cell" : name.toLowerCase()}>
                {name}
              </span>
            ))}
          </div>
        </div>
        <div className="scroll" ref={scroll} role="rowgroup" tabIndex={0} aria-label="Rows">
          <div role="presentation" style={{ height: virtual.getTotalSize(), position: "relative" }}>
            {items.map((item) => (
              <Row key={item.index} index={item.index} top={item.start} job={job(item.index)} />
            ))}
          </div>
        </div>
      </div>
    </>
  );
}

function Row({ index, top, job }: { index: number; top: number; job: Job | undefined }) {
  const place = { position: "absolute", top: 0, transform: `translateY(${top}px)`, height: ROW_PX } as const;
  return (
    <div className="row" role="row" aria-rowindex={index + 2} style={place}>
      {job ? <Cells job={job} /> : <span role="cell">…</span>}
    </div>
  );
}

function Cells({ job }: { job: Job }) {
  return (
    <>
      <span role="cell" className="job">
        <Link to={`/jobs/${jobPath(job)}`} title={`${job.kind} ${job.namespace}/${job.name}`}>
          {job.name}
        </Link>
        <small>
          {job.namespace} · {job.kind}
        </small>
      </span>
      <span role="cell" className="state-cell">
        <State state={job.state} />
      </span>
      <span role="cell" className="queue">
        {job.queue ?? "–"}
      </span>
      <span role="cell" className="place">
        {job.position ?? "–"}
      </span>
      <span role="cell" className="member">
        {job.member ?? "–"}
      </span>
      <span role="cell" className="gpus">
        {job.gpus}
      </span>
      <span role="cell" className="user">
        {job.user ?? "–"}
      </span>
      <span role="cell" className="created">
        <Ago at={job.created} />
      </span>
      <span role="cell" className="reason" title={job.reason?.text}>
        {job.reason?.text ?? ""}
      </span>
    </>
  );
}

function Nothing({ filtered, partial }: { filtered: boolean; partial: boolean }) {
  if (filtered) return <Empty title="No job matches">Take a filter away, or wait for such a job to come.</Empty>;
  return (
    <Empty title={partial ? "No job that you may see" : "No jobs yet"}>
      Submit one with <code>fleet run</code> or <code>fleet submit FILE</code>. It shows here at once.
    </Empty>
  );
}
