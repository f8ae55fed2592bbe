/** The quota tree as nested bars, and of each leaf the jobs that wait there, in their order. */

import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { amount, count, readable } from "../amounts";
import { type ClusterList, found, get, type JobList, jobPath, type Queue, type QueueList } from "../api";
import { useLeaves } from "../leaves";
import { Mark, type Shades, shades } from "../shades";
import { Empty, Loaded } from "../shown";

const MAX_JOBS = "kube-queue/max-jobs";
const ORDER_MOST = 200;

export function QueuesPage() {
  const queues = useQuery({ queryKey: ["queues"], queryFn: () => get<QueueList>("/fleet/v1/queues") });
  const members = useQuery({ queryKey: ["members", "room"], queryFn: () => found<ClusterList>("/fleet/v1/clusters") });
  return (
    <>
      <h1>Queues</h1>
      <Loaded query={queues} height={300}>
        {({ items, partial }) =>
          items.length === 0 ? (
            <Empty title="There are no queues">
              An administrator makes them with an ElasticQuotaTree. Jobs start without one, too, as long as there is
              room.
            </Empty>
          ) : (
            <Tree items={items} partial={partial} members={members.data ?? null} />
          )
        }
      </Loaded>
    </>
  );
}

function Tree({ items, partial, members }: { items: Queue[]; partial: boolean; members: ClusterList | null }) {
  const [address, setAddress] = useSearchParams();
  const names = [...new Set(items.flatMap((one) => Object.keys({ ...one.max, ...one.min, ...one.used })))];
  const resources = names
    .filter((name) => name !== MAX_JOBS)
    .sort((a, b) => Number(b.endsWith("/gpu")) - Number(a.endsWith("/gpu")));
  const asked = address.get("resource") ?? "";
  const resource = resources.includes(asked) ? asked : (resources[0] ?? "");
  const room = (members?.items ?? []).reduce((sum, one) => sum + amount(one.allocatable[resource]), 0);
  const leaves = useLeaves();
  const tones = useMemo(() => {
    const names = items.filter((one) => one.children.length === 0).map((one) => one.path);
    return leaves === undefined ? undefined : shades(names, leaves);
  }, [items, leaves]);
  const byPath = new Map(items.map((one) => [one.path, one]));
  const roots = items.filter((one) => one.parent === null || !byPath.has(one.parent));
  return (
    <>
      <NativeSelect
        className="resource"
        label="Resource"
        value={resource}
        data={resources}
        onChange={(event) => setAddress({ resource: event.currentTarget.value }, { replace: true })}
      />
      <ul className="legend" aria-label="Meaning of the bars">
        <li>
          <span className="slot used" aria-hidden="true" /> used within min
        </li>
        <li>
          <span className="slot borrowed" aria-hidden="true" /> used above min: borrowed
        </li>
        <li>
          <span className="slot promised" aria-hidden="true" /> min that is not used
        </li>
        <li>
          <span className="slot fair" aria-hidden="true" /> fair share
        </li>
        <li>
          <span className="slot limited" aria-hidden="true" /> max
        </li>
      </ul>
      {partial && <p className="note">These are the queues that you may see. There may be more.</p>}
      <ul className="tree">
        {roots.map((one) => (
          <Branch key={one.path} queue={one} byPath={byPath} resource={resource} room={room} tones={tones} />
        ))}
      </ul>
    </>
  );
}

interface BranchProps {
  queue: Queue;
  byPath: Map<string, Queue>;
  resource: string;
  room: number;
  /** Of the leaves; undefined until the tree is read. */
  tones: Shades | undefined;
}

function Branch({ queue, byPath, resource, room, tones }: BranchProps) {
  const children = queue.children.flatMap((path) => byPath.get(path) ?? []);
  const used = amount(queue.used[resource]);
  const min = amount(queue.min[resource]);
  const max = resource in queue.max ? amount(queue.max[resource]) : null;
  // A limit beyond the whole fleet would press all bars flat.
  const whole = Math.max(room, used) || Math.max(min, max ?? 0, 1);
  const fair = resource in queue.fairShare ? amount(queue.fairShare[resource]) : null;
  const lenders = queue.lenders.filter((one) => one.resource === resource);
  const within = Math.min(used, min);
  const text = (value: number) => readable(resource, value);
  const figures = [
    `used ${text(used)}`,
    `min ${text(min)}`,
    ...(fair === null ? [] : [`fair share ${text(fair)}`]),
    max === null ? "no max" : `max ${text(max)}`,
    ...(used > min && queue.parent !== null ? [`borrowed ${text(used - min)}`] : []),
  ];
  return (
    <li>
      <div className="queue-line">
        <strong title={queue.path}>
          {children.length === 0 && <Mark shade={tones?.get(queue.path)} />} {queue.path.split("/").at(-1)}
        </strong>
        <span>{figures.join(", ")}</span>
        <span>
          <Link to={`/jobs?queue=${encodeURIComponent(queue.path)}&state=Running`}>{queue.running} running</Link>,{" "}
          <Link to={`/jobs?queue=${encodeURIComponent(queue.path)}&state=Queued`}>{queue.waiting} waiting</Link>
          {MAX_JOBS in queue.max && amount(queue.max[MAX_JOBS]) < 1e6 && `, at most ${queue.max[MAX_JOBS]} at once`}
        </span>
      </div>
      <Bar
        parts={{ within, borrowed: used - within, promised: Math.max(0, Math.min(min, whole) - used) }}
        whole={whole}
        max={max}
        fair={fair}
        label={`${queue.path}: ${figures.join(", ")}`}
      />
      {lenders.length > 0 && (
        <p className="note">
          Borrowed from the unused min of{" "}
          {lenders.map((one) => `${one.queue} (${text(amount(one.amount))})`).join(", ")}
        </p>
      )}
      {children.length > 0 ? (
        <ul>
          {children.map((one) => (
            <Branch key={one.path} queue={one} byPath={byPath} resource={resource} room={room} tones={tones} />
          ))}
        </ul>
      ) : (
        queue.waiting > 0 && <Order queue={queue} />
      )}
    </li>
  );
}

function Bar(props: {
  parts: { within: number; borrowed: number; promised: number };
  whole: number;
  max: number | null;
  fair: number | null;
  label: string;
}) {
  const percent = (value: number) => `${Math.min(100, (100 * value) / props.whole)}%`;
  return (
    <div className="bar" role="img" aria-label={props.label} title={props.label}>
      <span className="used" style={{ width: percent(props.parts.within) }} />
      <span className="borrowed" style={{ width: percent(props.parts.borrowed) }} />
      <span className="promised" style={{ width: percent(props.parts.promised) }} />
      {props.fair !== null && props.fair <= props.whole && <i className="fair" style={{ left: percent(props.fair) }} />}
      {props.max !== null && props.max < props.whole && <i className="limit" style={{ left: percent(props.max) }} />}
    </div>
  );
}

/** The jobs of a leaf in their order, read when a reader opens them. */
function Order({ queue }: { queue: Queue }) {
  const [open, setOpen] = useState(false);
  const path = `/fleet/v1/jobs?queue=${encodeURIComponent(queue.path)}&state=Queued&state=BackOff&state=Held&limit=10000`;
  const jobs = useQuery({ queryKey: ["jobs", "order", queue.path], queryFn: () => get<JobList>(path), enabled: open });
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Order of {count(queue.waiting, "waiting job")}</summary>
      {open && (
        <Loaded query={jobs} height={80}>
          {({ items }) => (
            <ol className="order">
              {items
                .sort((a, b) => (a.position ?? Infinity) - (b.position ?? Infinity))
                .slice(0, ORDER_MOST)
                .map((job) => (
                  <li key={jobPath(job)}>
                    <span>{job.position ?? "–"}</span>
                    <Link to={`/jobs/${jobPath(job)}`}>
                      {job.namespace}/{job.name}
                    </Link>
                    <span>{count(job.gpus, "GPU")}</span>
                    <span>priority {job.priority ?? "–"}</span>
                    <span className="why">{job.reason?.text ?? ""}</span>
                  </li>
                ))}
            </ol>
          )}
        </Loaded>
      )}
    </details>
  );
}
