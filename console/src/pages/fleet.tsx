/** The fleet: its GPUs by member, model and node, its use over time, and its newest changes and jobs. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { count, gpus } from "../amounts";
import { type Cluster, type ClusterList, found, get, jobPath, type PastJobList } from "../api";
import { LastHour } from "../changes";
import { cordoned } from "../cordon";
import { NodeMap } from "../nodemap";
import { Bar, Empty, Figure, Loaded, OVER, State } from "../shown";
import { Ago } from "../times";
import { UseChart } from "../usechart";

export function FleetPage() {
  const members = useQuery({ queryKey: ["members"], queryFn: () => get<ClusterList>("/fleet/v1/clusters") });
  return (
    <>
      <h1>Fleet</h1>
      <Loaded query={members} height={400}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="The fleet has no members yet">
              Join a cluster with <code>fleet join</code>. It shows here at once.
            </Empty>
          ) : (
            <Members items={items} />
          )
        }
      </Loaded>
      {/* Below the members, which are taller than what stands there before them. */}
      {!members.isPending && <Lately />}
    </>
  );
}

function Members({ items }: { items: Cluster[] }) {
  const total = items.reduce((sum, one) => sum + gpus(one.allocatable), 0);
  const used = items.reduce((sum, one) => sum + gpus(one.allocated), 0);
  const fragmented = items.flatMap((one) => one.gpus).reduce((sum, row) => sum + row.fragmented, 0);
  const away = items.filter(cordoned).reduce((sum, one) => sum + one.free_gpus, 0);
  return (
    <>
      <dl className="figures">
        <Figure label="Members" value={items.length} note={`${items.filter((one) => one.ready).length} ready`} />
        <Figure label="GPUs" value={total.toLocaleString()} />
        <Figure label="Used" value={used.toLocaleString()} />
        <Figure label="Free" value={Math.max(0, total - used - away).toLocaleString()} />
        <Figure label="Free, beside others on their node" value={fragmented.toLocaleString()} />
        <Figure label="Free, but cordoned" value={away.toLocaleString()} />
      </dl>
      <Models items={items} />
      <section aria-labelledby="members">
        <h2 id="members">
          <Link to="/members">Members</Link>
        </h2>
        <div className="cards">
          {items.map((one) => (
            <Member key={one.name} member={one} />
          ))}
        </div>
      </section>
      <section aria-labelledby="over-time">
        <h2 id="over-time">
          <Link to="/usage">Use in the last 24 hours</Link>
        </h2>
        <UseChart by="queue" hours={24} label="GPUs in use by queue in the last 24 hours" />
      </section>
      <NodeMap members={items} />
      <LastHour members={items} />
    </>
  );
}

/** GPUs by their model, over all members. Nothing where no label of a node names one. */
function Models({ items }: { items: Cluster[] }) {
  const sums = new Map<string, { used: number; free: number; fragmented: number; cordoned: number }>();
  for (const row of items.flatMap((member) => member.gpus)) {
    const sum = sums.get(row.model) ?? { used: 0, free: 0, fragmented: 0, cordoned: 0 };
    sums.set(row.model, {
      used: sum.used + row.allocated,
      free: sum.free + row.free,
      fragmented: sum.fragmented + row.fragmented,
      cordoned: sum.cordoned + row.cordoned,
    });
  }
  if (![...sums.keys()].some(Boolean)) return null;
  return (
    <section aria-labelledby="models">
      <h2 id="models">GPUs by model</h2>
      <div className="cards">
        {[...sums].sort().map(([model, sum]) => (
          <article className="card" key={model} aria-label={`GPUs of model ${model || "unknown"}`}>
            <h3>{model || "unknown model"}</h3>
            <Bar
              parts={[["used", sum.used]]}
              whole={sum.used + sum.free + sum.cordoned}
              label={`${sum.used} used of ${sum.used + sum.free + sum.cordoned}`}
            />
            <p>
              {sum.used} of {count(sum.used + sum.free + sum.cordoned, "GPU")} used, {sum.free} free
              {sum.fragmented > 0 && ` (${sum.fragmented} beside others on their node)`}
              {sum.cordoned > 0 && `, ${sum.cordoned} cordoned`}
            </p>
          </article>
        ))}
      </div>
    </section>
  );
}

function Member({ member }: { member: Cluster }) {
  const all = gpus(member.allocatable);
  const used = gpus(member.allocated);
  const jobs = Object.entries(member.jobs).reduce((sum, [state, jobs]) => sum + (OVER.includes(state) ? 0 : jobs), 0);
  return (
    <article className="card" aria-label={`Member ${member.name}`}>
      <h3>
        {member.name} {!member.ready && <span className="state bad">not ready</span>}
        {cordoned(member) && <span className="state held">cordoned</span>}
      </h3>
      <Bar parts={[["used", used]]} whole={all} label={`${used} of ${count(all, "GPU")} used`} />
      <p>
        {used} of {count(all, "GPU")} used, {count(member.nodes.ready, "ready node")}
        {member.nodes.total > member.nodes.ready && ` of ${member.nodes.total}`},{" "}
        <Link to={`/jobs?member=${encodeURIComponent(member.name)}`}>{count(jobs, "job")}</Link>
      </p>
      {member.message && <p className="bad-text">{member.message}</p>}
    </article>
  );
}

function Lately() {
  const past = useQuery({
    queryKey: ["jobs", "lately"],
    queryFn: () => found<PastJobList>("/fleet/v1/history?limit=10"),
  });
  return (
    <section aria-labelledby="lately">
      <h2 id="lately">Newest jobs</h2>
      <Loaded query={past} height={200}>
        {(data) =>
          data === null || data.items.length === 0 ? (
            <Empty title="No jobs are recorded yet">A job shows here from its submission on.</Empty>
          ) : (
            <ul className="lately">
              {data.items.map((job) => (
                <li key={job.uid}>
                  <State state={job.state} />
                  <Link to={`/jobs/${jobPath(job)}`}>
                    {job.namespace}/{job.name}
                  </Link>
                  <span>
                    {count(job.gpus, "GPU")}, {job.ended ? "ended" : job.started ? "started" : "submitted"}{" "}
                    <Ago at={job.ended ?? job.started ?? job.submitted} />
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  );
}
