/** The map of the nodes: a square for each GPU, coloured by queue. A member's nodes are read when it is opened. */

import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { count } from "./amounts";
import { type Cluster, found, type GpuNode, jobPath, type NodeList } from "./api";
import { useLeaves } from "./leaves";
import { Mark, type Shade, type Shades, shades } from "./shades";
import { Empty, Loaded } from "./shown";
import { Ago } from "./times";

const NODES_MOST = 400; // that are drawn of a member
const OPEN_MOST = 2; // members that are open at first
const SQUARES_MOST = 16; // of a node
const NO_QUEUE = "outside the queues";

export function NodeMap({ members }: { members: Cluster[] }) {
  const withGpus = members.filter((one) => one.gpus.some((row) => row.allocated + row.free + row.cordoned > 0));
  return (
    <section aria-labelledby="nodes">
      <h2 id="nodes">Nodes</h2>
      {withGpus.length === 0 ? (
        <Empty title="No node has a GPU">Nodes show here with their GPUs once a member has some.</Empty>
      ) : (
        withGpus.map((one, index) => <MemberMap key={one.name} name={one.name} first={index < OPEN_MOST} />)
      )}
    </section>
  );
}

function MemberMap({ name, first }: { name: string; first: boolean }) {
  const [open, setOpen] = useState(first);
  const leaves = useLeaves();
  const nodes = useQuery({
    // The hub writes the nodes down some seconds after a change, so a change is no moment to ask for them.
    queryKey: ["nodes", name],
    queryFn: () => found<NodeList>(`/fleet/v1/nodes?member=${encodeURIComponent(name)}&limit=${NODES_MOST}`),
    enabled: open,
    refetchInterval: 10_000,
  });
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Nodes of {name}</summary>
      {open && (
        <Loaded query={nodes} height={120}>
          {(data) =>
            leaves === undefined ? (
              <Skeleton height={120} aria-hidden="true" />
            ) : data === null || data.items.length === 0 ? (
              <Empty title="The nodes are not known yet">They show here after the controllers' next look.</Empty>
            ) : (
              <Nodes data={data} leaves={leaves} />
            )
          }
        </Loaded>
      )}
    </details>
  );
}

const named = (queue: string | null) => queue ?? NO_QUEUE;

function Nodes({ data, leaves }: { data: NodeList; leaves: string[] | null }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const tones = useMemo(() => {
    const queues = new Set(data.items.flatMap((node) => node.jobs.map((job) => job.queue)));
    return shades([...queues].sort(), leaves);
  }, [data, leaves]);
  const node = data.items.find((one) => one.name === chosen);
  return (
    <>
      <ul className="legend" aria-label="Meaning of the squares">
        {[...tones].map(([name, shade]) => (
          <li key={named(name)}>
            <Mark shade={shade} /> {named(name)}
          </li>
        ))}
        <li>
          <span className="slot other" data-sign="–" aria-hidden="true" /> other pods
        </li>
        <li>
          <span className="slot" aria-hidden="true" /> free
        </li>
        <li>
          <span className="slot closed" data-sign="×" aria-hidden="true" /> takes no pods
        </li>
      </ul>
      <ul className="nodes">
        {data.items.map((one) => (
          <li key={one.name}>
            <button
              type="button"
              title={inWords(one)}
              aria-label={inWords(one)}
              aria-pressed={one.name === chosen}
              onClick={() => setChosen(one.name === chosen ? null : one.name)}
              onFocus={() => setChosen(one.name)}
            >
              <Squares node={one} tones={tones} />
            </button>
          </li>
        ))}
      </ul>
      {node && (
        <p role="status">
          <strong>{node.name}</strong> {sums(node)}
          {node.jobs.map((job) => (
            <span key={jobPath(job)}>
              {" · "}
              <Link to={`/jobs/${jobPath(job)}`}>
                {job.namespace}/{job.name}
              </Link>{" "}
              {count(job.gpus, "GPU")} ({named(job.queue)})
            </span>
          ))}
        </p>
      )}
      <p className="note">
        {data.left > 0 && `${count(data.left, "more node")} of this member are not drawn. `}As the controllers saw them{" "}
        <Ago at={data.at} />
      </p>
    </>
  );
}

/** One square a GPU: those of jobs, those of other pods, the free ones. */
function Squares({ node, tones }: { node: GpuNode; tones: Shades }) {
  const taken = node.jobs.flatMap((job) => Array<Shade | undefined>(job.gpus).fill(tones.get(job.queue)));
  return Array.from({ length: Math.min(node.gpus, SQUARES_MOST) }, (_, at) => {
    const shade = taken[at];
    // biome-ignore lint/suspicious/noArrayIndexKey: the squares of a node have no other name
    if (shade) return <Mark key={at} shade={shade} />;
    const [tone, sign] =
      at < taken.length + node.other ? ["other", "–"] : node.state === "ready" ? ["", ""] : ["closed", "×"];
    return (
      // biome-ignore lint/suspicious/noArrayIndexKey: the squares of a node have no other name
      <span key={at} className={`slot ${tone}`} data-sign={sign} aria-hidden="true" />
    );
  });
}

function sums(node: GpuNode): string {
  const used = node.jobs.reduce((sum, job) => sum + job.gpus, node.other);
  const state = { ready: "", cordoned: ", cordoned", notReady: ", not ready" }[node.state] ?? "";
  return `${used} of ${count(node.gpus, "GPU")} used${state}`;
}

function inWords(node: GpuNode): string {
  const jobs = node.jobs.map((job) => `${job.namespace}/${job.name} ${job.gpus} (${named(job.queue)})`);
  return [`${node.name}: ${sums(node)}`, ...jobs].join(", ");
}
