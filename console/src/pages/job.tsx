/** One job: its life, why it waits, its pods, events, logs and manifest, and the buttons that the user may press. */

import { Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { count, readable } from "../amounts";
import { found, get, type JobDetail, jobPath, type Life } from "../api";
import { Buttons } from "../buttons";
import { Logs, type PodList } from "../logs";
import { Pods } from "../pods";
import { Empty, Figure, Loaded, MemberLink, State } from "../shown";
import { Why } from "../starters";
import { Coming, Timeline } from "../timeline";
import { Ago } from "../times";

const WAITING = ["Queued", "BackOff", "Held", "Waiting"];
const TABS = ["pods", "events", "logs", "manifest"];

export function JobPage() {
  const { namespace = "", kind = "", name = "" } = useParams();
  const path = jobPath({ namespace, kind, name });
  const job = useQuery({ queryKey: ["jobs", "one", path], queryFn: () => get<JobDetail>(`/fleet/v1/jobs/${path}`) });
  return (
    <>
      <p className="crumbs">
        <Link to="/jobs">Jobs</Link> / <Link to={`/jobs?namespace=${encodeURIComponent(namespace)}`}>{namespace}</Link>
      </p>
      <h1>
        {name} <small>{kind}</small>
      </h1>
      <Loaded query={job} height={400}>
        {(data) => <Job job={data} path={path} />}
      </Loaded>
    </>
  );
}

function Job({ job, path }: { job: JobDetail; path: string }) {
  const life = useQuery({
    queryKey: ["jobs", "life", path],
    queryFn: () => found<Life>(`/fleet/v1/history/${path}`),
  });
  return (
    <>
      <dl className="figures">
        <Figure label="State" value={<State state={job.state} />} />
        <Figure
          label="Queue"
          value={job.queue ? <Link to={`/jobs?queue=${encodeURIComponent(job.queue)}`}>{job.queue}</Link> : "–"}
          note={job.position ? `place ${job.position}` : undefined}
        />
        <Figure
          label="Member"
          value={job.member ? <MemberLink name={job.member} /> : "–"}
          note={job.attempt > 1 ? `attempt ${job.attempt}` : undefined}
        />
        <Figure label="GPUs" value={job.gpus} note={`in ${count(job.pods, "pod")}`} />
        <Figure label="Priority" value={job.priority ?? "–"} />
        <Figure label="User" value={job.user ?? "–"} />
        <Figure label="Created" value={<Ago at={job.created} />} />
      </dl>
      <Buttons job={job} />
      {job.reason && <p className="reason-text">{job.reason.text}</p>}
      {WAITING.includes(job.state) && <Why job={job} />}
      {life.isPending ? <Coming placed={job.member !== null} /> : <Timeline job={job} life={life.data ?? null} />}
      <Details job={job} />
    </>
  );
}

function Details({ job }: { job: JobDetail }) {
  const [tab, setTab] = useState<string | null>("pods");
  const pods = useQuery({
    queryKey: ["jobs", "pods", job.object],
    queryFn: () => found<PodList>(`${job.object}/pods`),
    enabled: job.member !== null,
  });
  return (
    <Tabs value={tab} onChange={setTab} keepMounted={false}>
      <Tabs.List>
        {TABS.map((one) => (
          <Tabs.Tab key={one} value={one}>
            {one[0]?.toUpperCase() + one.slice(1)}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value="pods">
        {job.member === null ? (
          <Empty title="No pods yet">A job has pods from the moment on when it is in a member.</Empty>
        ) : (
          <Loaded query={pods}>{(data) => <Pods object={job.object} pods={data} />}</Loaded>
        )}
      </Tabs.Panel>
      <Tabs.Panel value="events">
        <Events job={job} />
      </Tabs.Panel>
      <Tabs.Panel value="logs">
        <Logs namespace={job.namespace} pods={pods.data?.items ?? []} />
      </Tabs.Panel>
      <Tabs.Panel value="manifest">
        <Manifest path={job.object} />
      </Tabs.Panel>
    </Tabs>
  );
}

interface EventObject {
  metadata: { uid: string };
  type: string;
  reason: string;
  message: string;
  count?: number;
  lastTimestamp?: string | null;
  eventTime?: string | null;
}

function Events({ job }: { job: JobDetail }) {
  const fields = encodeURIComponent(`involvedObject.uid=${job.uid}`);
  const query = useQuery({
    queryKey: ["jobs", "events", job.uid],
    queryFn: () =>
      get<{ items: EventObject[] }>(
        `/api/v1/namespaces/${encodeURIComponent(job.namespace)}/events?fieldSelector=${fields}`,
      ),
  });
  return (
    <Loaded query={query}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title="No events">The hub keeps events for an hour. The timeline above stays.</Empty>
        ) : (
          <ul className="events">
            {items.toReversed().map((one) => (
              <li key={one.metadata.uid}>
                <Ago at={one.lastTimestamp ?? one.eventTime} />
                <strong className={one.type === "Warning" ? "bad-text" : ""}>{one.reason}</strong>
                <span>
                  {one.message}
                  {(one.count ?? 1) > 1 && ` (${readable("", one.count ?? 1)} times)`}
                </span>
              </li>
            ))}
          </ul>
        )
      }
    </Loaded>
  );
}

function Manifest({ path }: { path: string }) {
  const query = useQuery({
    queryKey: ["jobs", "manifest", path],
    queryFn: () => get<{ metadata: { managedFields?: unknown } }>(path),
  });
  return (
    <Loaded query={query}>
      {(data) => (
        <pre tabIndex={0}>
          {JSON.stringify({ ...data, metadata: { ...data.metadata, managedFields: undefined } }, null, 2)}
        </pre>
      )}
    </Loaded>
  );
}
