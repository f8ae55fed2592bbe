/** The jobs: a list of any length. Only rows in view are drawn, and only pages in view are asked for again. */

import { Button, NativeSelect } from "@mantine/core";
import { keepPreviousData, useQueries, useQueryClient } from "@tanstack/react-query";
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

function useRows(filter: string, first: number, last: number) {
  const client = useQueryClient();
  const [wanted, setWanted] = useState({ filter, pages: 1 });
  const pages = wanted.filter === filter ? wanted.pages : 1;
  // Each page begins after the last job of the page before, so its token is its name.
  const tokens = [""];
  const starts = [0];
  while (tokens.length < pages) {
    const data = client.getQueryData<JobList>(["jobs", "page", filter, tokens.at(-1)]);
    if (!data?.continue) break;
    tokens.push(data.continue);
    starts.push((starts.at(-1) ?? 0) + data.items.length);
  }
  const found = useQueries({
    queries: tokens.map((token, index) => ({
      queryKey: ["jobs", "page", filter, token],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        get<JobList>(
          `/fleet/v1/jobs?${filter}&limit=${token ? PAGE : FIRST_PAGE}${token && `&continue=${encodeURIComponent(token)}`}`,
          signal,
        ),
      enabled: index === tokens.length - 1 || ((starts[index] ?? 0) <= last && (starts[index + 1] ?? Infinity) > first),
      placeholderData: index === 0 ? keepPreviousData : undefined,
    })),
  });
  const rows = useMemo(() => found.flatMap((page) => page.data?.items ?? []), [found]);
  const end = found.at(-1)?.data;
  const more = end?.continue ? (end.remaining ?? MORE_ROWS) : 0;
  const next = last >= rows.length && Boolean(end?.continue);
  useEffect(() => {
    if (next) setWanted({ filter, pages: tokens.length + 1 });
  }, [next, filter, tokens.length]);
  const error = found.find((page) => page.error)?.error ?? null;
  return {
    rows,
    total: rows.length + more,
    counted: !end?.continue || end.remaining !== null,
    error,
    head: found[0]?.data,
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
  const { rows, total, counted, error, head } = useRows(filter, range.first, range.last);
  const virtual = useVirtualizer({
    count: total,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => setRange({ first, last }), [first, last]);
  if (error && rows.length === 0) return <Trouble error={error} />;
  if (head && total === 0) return <Nothing filtered={filter !== ""} partial={head.partial} />;
  return (
    <>
      <p className="note" aria-live="polite">
        {head ? `${counted ? "" : "more than "}${count(counted ? total : rows.length, "job")}` : "Asking the hub …"}
        {head?.partial && ". There may be more, in namespaces that you may not see"}
        {head?.notice && `. ${head.notice}`}
      </p>
      <div className="jobs" role="table" aria-label="Jobs" aria-rowcount={total + 1} aria-busy={!head}>
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
              <Row key={item.index} index={item.index} top={item.start} job={rows[item.index]} />
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
