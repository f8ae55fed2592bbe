/** The members: whether they are well, what they have and run, and the buttons that keep jobs from them. */

import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link } from "react-router";
import { count, gpus } from "../amounts";
import {
  allowed,
  type Cluster,
  type ClusterList,
  found,
  type GpuUse,
  get,
  type HubStatus,
  jobPath,
  type NodeList,
} from "../api";
import { cordon, cordoned, drain, drains, objectOf, uncordon } from "../cordon";
import { addressOf } from "../edits";
import { useMayAsk } from "../rights";
import { Bar, Empty, Loaded } from "../shown";
import { Ago, duration } from "../times";
import { gpuUse, percent, USE_MS } from "../use";

const JOBS_MOST = 20;
const IDLE_PERCENT = "5"; // as `fleet top --idle`
const NO_SOURCE = "no source of figures";
const PER_MINUTE = 60; // as `fleet drain`

interface Condition {
  type: string;
  status: string;
  message?: string;
}

export function MembersPage() {
  const members = useQuery({ queryKey: ["members"], queryFn: () => get<ClusterList>("/fleet/v1/clusters") });
  const may = useQuery({
    queryKey: ["rights", "clusters"],
    queryFn: () => allowed({ verb: "patch", group: "cluster.karmada.io", resource: "clusters" }),
    staleTime: 60_000,
  });
  const mayAsk = useMayAsk();
  const status = useQuery({
    queryKey: ["members", "status"],
    queryFn: () => found<HubStatus>("/fleet/v1/status"),
    refetchInterval: 10_000,
  });
  const use = useQuery({
    queryKey: ["use", "members"],
    queryFn: () => found<GpuUse>(`/fleet/v1/gpus?below=${IDLE_PERCENT}&limit=${JOBS_MOST}`),
    refetchInterval: USE_MS,
  });
  const told = new Map(
    use.data?.members?.map((one) => [one.name, [gpuUse(one), one.silent].filter(Boolean).join("; ")]),
  );
  const silent = new Map(status.data?.members.map((one) => [one.name, one.silent_s]));
  return (
    <>
      <h1>Members</h1>
      <Loaded query={members} height={400}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="The fleet has no members yet">
              Join a cluster with <code>fleet join</code>. It shows here at once.
            </Empty>
          ) : (
            <div className="cards">
              {items.map((one) => (
                <Member
                  key={one.name}
                  member={one}
                  may={may.data ?? false}
                  mayAsk={mayAsk.data ?? false}
                  silent={silent.get(one.name)}
                  use={use.data && (told.get(one.name) ?? NO_SOURCE)}
                />
              ))}
            </div>
          )
        }
      </Loaded>
      {use.data && use.data.jobs.length > 0 && <Idle use={use.data} />}
    </>
  );
}

/** The jobs that use their GPUs little, the longest first. */
function Idle({ use }: { use: GpuUse }) {
  return (
    <section aria-labelledby="idle">
      <h2 id="idle">Jobs that use less than {IDLE_PERCENT} % of their GPUs</h2>
      <ul className="lately">
        {use.jobs.map((job) => (
          <li key={jobPath(job)}>
            <Link to={`/jobs/${jobPath(job)}`}>
              {job.namespace}/{job.name}
            </Link>
            <span>
              {percent(job.utilization)} of {count(job.gpus, "GPU")} in {job.member} since <Ago at={job.since} />
            </span>
            <span>{[job.queue, job.user].filter(Boolean).join(", ")}</span>
          </li>
        ))}
        {use.left > 0 && <li>{count(use.left, "more job")}</li>}
      </ul>
    </section>
  );
}

interface MemberProps {
  member: Cluster;
  may: boolean;
  mayAsk: boolean;
  silent?: number | null;
  use?: string | null;
}

function Member({ member, may, mayAsk, silent, use }: MemberProps) {
  const all = gpus(member.allocatable);
  const used = gpus(member.allocated);
  const jobs = Object.entries(member.jobs);
  return (
    <article className="card" aria-label={`Member ${member.name}`}>
      <h2>
        {member.name}{" "}
        <span className={`state ${member.ready ? "good" : "bad"}`}>{member.ready ? "ready" : "not ready"}</span>{" "}
        {cordoned(member) && <span className="state held">{drains(member) ? "drains" : "cordoned"}</span>}
      </h2>
      {member.message && <p className="bad-text">{member.message}</p>}
      <Bar parts={[["used", used]]} whole={all} label={`${used} of ${count(all, "GPU")} used`} />
      <dl className="facts">
        <dt>GPUs</dt>
        <dd>
          {used} of {all} used
          {member.gpus.some((row) => row.model) && ` (${member.gpus.map((row) => row.model || "unknown").join(", ")})`}
        </dd>
        <dt>GPU use</dt>
        <dd title={use === NO_SOURCE ? "spec.metrics of the Cluster names none" : undefined}>{use || "unknown"}</dd>
        <dt>Nodes</dt>
        <dd>
          {member.nodes.ready} of {member.nodes.total} ready
        </dd>
        <dt>Last heard</dt>
        <dd>
          {silent === undefined ? "unknown" : silent === null ? "never" : `${duration(silent)} ago`}
          {member.readySince && (
            <>
              , {member.ready ? "ready" : "not ready"} since <Ago at={member.readySince} />
            </>
          )}
        </dd>
        <dt>Kubernetes</dt>
        <dd>
          {member.version ?? "unknown"} {member.endpoint && <small>at {member.endpoint}</small>}
        </dd>
        <dt>Jobs</dt>
        <dd>
          {jobs.length === 0
            ? "none"
            : jobs.map(([state, number]) => (
                <Link key={state} to={`/jobs?member=${encodeURIComponent(member.name)}&state=${state}`}>
                  {number} {state}{" "}
                </Link>
              ))}
        </dd>
      </dl>
      <Held member={member.name} />
      {drains(member) && <Progress member={member} />}
      {mayAsk && (
        <p>
          What if it were <Link to={addressOf([{ DrainMember: { member: member.name } }])}>drained</Link> or{" "}
          <Link to={addressOf([{ LoseMember: { member: member.name, failover: "policy" } }])}>lost</Link>?
        </p>
      )}
      {may && <Buttons member={member} />}
    </article>
  );
}

/** The GPUs of the jobs in a member, read when a reader opens them. */
function Held({ member }: { member: string }) {
  const [open, setOpen] = useState(false);
  const nodes = useQuery({
    queryKey: ["members", "held", member],
    queryFn: () => found<NodeList>(`/fleet/v1/nodes?member=${encodeURIComponent(member)}&limit=5000`),
    enabled: open,
  });
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>GPUs by job</summary>
      {open && (
        <Loaded query={nodes} height={60}>
          {(data) => <Jobs nodes={data?.items ?? []} />}
        </Loaded>
      )}
    </details>
  );
}

function Jobs({ nodes }: { nodes: NodeList["items"] }) {
  const sums = new Map<string, { name: string; gpus: number; nodes: number }>();
  for (const job of nodes.flatMap((node) => node.jobs)) {
    const sum = sums.get(jobPath(job)) ?? { name: `${job.namespace}/${job.name}`, gpus: 0, nodes: 0 };
    sums.set(jobPath(job), { ...sum, gpus: sum.gpus + job.gpus, nodes: sum.nodes + 1 });
  }
  const other = nodes.reduce((sum, node) => sum + node.other, 0);
  if (sums.size === 0 && other === 0) return <p>No pod here uses a GPU.</p>;
  return (
    <ul className="lately">
      {[...sums]
        .sort((a, b) => b[1].gpus - a[1].gpus)
        .slice(0, JOBS_MOST)
        .map(([path, job]) => (
          <li key={path}>
            <Link to={`/jobs/${path}`}>{job.name}</Link>
            <span>
              {count(job.gpus, "GPU")} on {count(job.nodes, "node")}
            </span>
          </li>
        ))}
      {sums.size > JOBS_MOST && <li>{count(sums.size - JOBS_MOST, "more job")}</li>}
      {other > 0 && <li>{count(other, "GPU")} of other pods</li>}
    </ul>
  );
}

/** How far a drain is, in the words of the hub. */
function Progress({ member }: { member: Cluster }) {
  const told = useQuery({
    queryKey: ["members", "drain", member.name],
    queryFn: () => get<{ status?: { conditions?: Condition[] } }>(objectOf(member.name)),
  });
  const condition = told.data?.status?.conditions?.find((one) => one.type === "Draining");
  return <p role="status">{condition?.message ?? "Its jobs begin to leave."}</p>;
}

function Buttons({ member }: { member: Cluster }) {
  const client = useQueryClient();
  const dialog = useRef<HTMLDialogElement>(null);
  const act = useMutation({
    mutationFn: (what: () => Promise<unknown>) => what(),
    onSettled: () => client.invalidateQueries({ queryKey: ["members"] }),
  });
  const { name } = member;
  return (
    <div className="buttons">
      {cordoned(member) ? (
        <Button variant="default" disabled={act.isPending} onClick={() => act.mutate(() => uncordon(name))}>
          Uncordon {name}
        </Button>
      ) : (
        <Button variant="default" disabled={act.isPending} onClick={() => act.mutate(() => cordon(name))}>
          Cordon {name}
        </Button>
      )}
      {!drains(member) && (
        <Button
          variant="default"
          className="danger"
          disabled={act.isPending}
          onClick={() => dialog.current?.showModal()}
        >
          Drain {name}
        </Button>
      )}
      <dialog ref={dialog} aria-labelledby={`drain-${name}`}>
        <h2 id={`drain-${name}`}>Drain {name}?</h2>
        <p>
          No new job starts there. At most {PER_MINUTE} jobs a minute are evicted, the lowest priority first, and queue
          again with their old place. Jobs that are not preemptible stay.
        </p>
        <form method="dialog" className="buttons">
          <Button type="submit" variant="default">
            Leave it
          </Button>
          <Button
            type="submit"
            className="danger"
            variant="default"
            onClick={() => act.mutate(() => drain(name, PER_MINUTE))}
          >
            Drain it
          </Button>
        </form>
      </dialog>
      {act.error && (
        <p className="bad-text" role="alert">
          {act.error.message}
        </p>
      )}
    </div>
  );
}
