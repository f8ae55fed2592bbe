/** One decision: what it changed, how good its plan is, and why each job that waits does. */

import { Button, NativeSelect } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { count } from "../amounts";
import { allowedPath, type DecisionDetail, get, type Replay, write } from "../api";
import { answerOf, causeOf, JobLink, milliseconds, NoDecision, quality } from "../decided";
import { Filter } from "../filter";
import { Long } from "../long";
import { Empty, Figure, Loaded, MemberLink } from "../shown";
import { At } from "../times";

const REASONS = 2_000; // of those that match; a search finds the others

export function DecisionPage() {
  const { id = "" } = useParams();
  const [address, setAddress] = useSearchParams();
  const [job, code] = ["job", "code"].map((name) => address.get(name) ?? "");
  const asked = new URLSearchParams({ limit: String(REASONS) });
  for (const [name, value] of Object.entries({ job, code })) if (value) asked.set(name, value);
  const path = `/fleet/v1/decisions/${encodeURIComponent(id)}`;
  const query = useQuery({
    // A decision never changes, so no change of the hub asks for it again.
    queryKey: ["decision", id, asked.toString()],
    queryFn: ({ signal }) => get<DecisionDetail>(`${path}?${asked}`, signal),
    placeholderData: keepPreviousData,
    staleTime: Infinity,
  });
  const set = (name: string, value: string) =>
    setAddress(
      (now) => {
        const after = new URLSearchParams(now);
        if (value) after.set(name, value);
        else after.delete(name);
        return after;
      },
      { replace: true, preventScrollReset: true },
    );
  return (
    <>
      <p className="crumbs">
        <Link to="/decisions">Decisions</Link>
      </p>
      <h1>Decision {id}</h1>
      {query.error && !query.data ? (
        <NoDecision error={query.error} again={() => void query.refetch()} />
      ) : (
        <Loaded query={query} height={400}>
          {(data) => (
            <>
              <Figures decision={data} />
              <Quality decision={data} />
              <Changes decision={data} />
              <BeforeAndAfter decision={data} />
              <Waiting decision={data} job={job ?? ""} code={code ?? ""} set={set} />
              <Record id={data.id} path={path} />
            </>
          )}
        </Loaded>
      )}
    </>
  );
}

function Figures({ decision }: { decision: DecisionDetail }) {
  return (
    <dl className="figures">
      <Figure label="Made" value={<At at={decision.at} />} />
      <Figure label="Started" value={<a href="#started">{decision.placements.length.toLocaleString()}</a>} />
      <Figure label="Keeps room for" value={<a href="#claims">{decision.claims.length.toLocaleString()}</a>} />
      <Figure label="Evicted" value={<a href="#evicted">{decision.evictions.length.toLocaleString()}</a>} />
      <Figure label="Left waiting" value={<a href="#waiting">{decision.waiting.toLocaleString()}</a>} />
      <Figure label="Looked at" value={count(decision.units, "job")} note={`in ${count(decision.members, "member")}`} />
      <Figure label="Took" value={decision.tookMs === null ? "–" : milliseconds(decision.tookMs)} />
    </dl>
  );
}

function Quality({ decision: { certificate, gap, ms } }: { decision: DecisionDetail }) {
  const solver = certificate.shipped !== "greedy";
  return (
    <section aria-labelledby="quality">
      <h2 id="quality">How good the plan is</h2>
      <p>
        <strong>{quality(gap).replace(/^./, (first) => first.toUpperCase())}.</strong>{" "}
        {gap === 0 && "No other plan starts more: first of guaranteed jobs, then of each later tier, by priority."}
        {gap !== null && gap > 0 && "The solver has proven this bound. The time for a better plan was over."}
        {gap === null && "The plan keeps all rules. The time, or the size of the question, allowed no proof."}
      </p>
      <p>
        The answer is that of {answerOf(certificate.shipped)}.{" "}
        {solver
          ? "The solver, CP-SAT, looks at all jobs at once. Its plan is worth more than that of backfill."
          : "Backfill starts jobs in the order of their queues, and lets later ones fill the gaps."}
        {certificate.causes.length > 0 && ` The cause: ${causeOf(certificate.causes)}.`}
        {certificate.bounds.length > 0 && ` A search ended at its bound: ${certificate.bounds.join(", ")}.`}
      </p>
      {certificate.stages.length > 0 && (
        <details>
          <summary>
            {count(certificate.stages.length, "stage")} of the solver, {milliseconds(ms)}
          </summary>
          <p className="note">
            The solver answers one stage after another. The value of a stage is the worth of the jobs that start, and no
            plan exceeds its bound.
          </p>
          <Table head={["Stage", "Value", "Bound", "Quality", "Status", "Time"]} label="Stages of the solver">
            {certificate.stages.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td className="number">{one.value.toLocaleString()}</td>
                <td className="number">{one.bound.toLocaleString()}</td>
                <td>{["OPTIMAL", "FEASIBLE"].includes(one.status) ? quality(one.gap) : "not proven"}</td>
                <td>{one.status}</td>
                <td className="number">{milliseconds(one.ms)}</td>
              </tr>
            ))}
          </Table>
        </details>
      )}
      <p className="note">
        The guide <em>Replay a decision</em> (docs/how-to/replay-a-decision.md) explains certificates.
      </p>
    </section>
  );
}

function Changes({ decision: { placements, claims, evictions, certificate } }: { decision: DecisionDetail }) {
  return (
    <>
      <section aria-labelledby="started">
        <h2 id="started">Started</h2>
        {placements.length === 0 ? (
          <p>No job.</p>
        ) : (
          <Long items={placements} label="Jobs that the decision started">
            {(one) => (
              <>
                <JobLink {...one} /> in <MemberLink name={one.member} />
              </>
            )}
          </Long>
        )}
      </section>
      {claims.length > 0 && (
        <section aria-labelledby="claims">
          <h2 id="claims">Keeps room for</h2>
          <p className="note">These jobs have a right to the room. Each starts when the jobs that leave are gone.</p>
          <Long items={claims} label="Jobs that room is kept for">
            {(one) => (
              <>
                <JobLink {...one} /> in <MemberLink name={one.member} />, until <At at={one.until} />
              </>
            )}
          </Long>
        </section>
      )}
      {evictions.length > 0 && (
        <section aria-labelledby="evicted">
          <h2 id="evicted">Evicted</h2>
          <p className="note">
            These jobs used room above their guarantee or share. Each queues again with its old place.
          </p>
          <Long items={evictions} label="Jobs that the decision evicted">
            {(one) => (
              <>
                <JobLink {...one} /> leaves <MemberLink name={one.member} />, to make room for <JobLink {...one.for} />
              </>
            )}
          </Long>
          <ul>
            {certificate.victims.map((one) => (
              <li key={one.unit}>
                The jobs that leave for {one.job} were chosen by {answerOf(one.shipped)}
                {one.cause && ` (${causeOf([one.cause])})`}.
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

type Use = DecisionDetail["byMember"][number] | DecisionDetail["byQueue"][number];

function BeforeAndAfter({ decision: { byMember, byQueue } }: { decision: DecisionDetail }) {
  const changed = byMember.filter(changes);
  const same = byMember.filter((one) => !changes(one));
  const members = (rows: typeof byMember, label: string) => (
    <Table head={["Member", "Before", "Starts", "Leaves", "After", "Of"]} label={label}>
      {rows.map((one) => (
        <Row key={one.name} use={one} most={one.gpus}>
          <MemberLink name={one.name} />
        </Row>
      ))}
    </Table>
  );
  return (
    <section aria-labelledby="gpus">
      <h2 id="gpus">GPUs before and after</h2>
      <p className="note">GPUs of the jobs of this hub; after: once these jobs have started and left.</p>
      {changed.length > 0 ? members(changed, "GPUs by member") : <p>No member has other GPUs in use.</p>}
      {same.length > 0 && (
        <details>
          <summary>{count(same.length, "member")} without a change</summary>
          {members(same, "GPUs of members without a change")}
        </details>
      )}
      {byQueue.length > 0 && (
        <Table head={["Queue", "Before", "Starts", "Leaves", "After", "Limit"]} label="GPUs by queue">
          {byQueue.map((one) => (
            <Row key={one.path} use={one} most={one.max}>
              <Link to={`/jobs?queue=${encodeURIComponent(one.path)}`} title={`Jobs of ${one.path} now`}>
                {one.path}
              </Link>
            </Row>
          ))}
        </Table>
      )}
    </section>
  );
}

const changes = (use: Use) => use.starts > 0 || use.leaves > 0;

function Row({ use, most, children }: { use: Use; most: number | null; children: ReactNode }) {
  return (
    <tr>
      <th scope="row">{children}</th>
      {[use.before, use.starts, use.leaves, use.after].map((value, index) => (
        <td key={["before", "starts", "leaves", "after"][index]} className="number">
          {value.toLocaleString()}
        </td>
      ))}
      <td className="number">{most === null ? "no limit" : most.toLocaleString()}</td>
    </tr>
  );
}

function Table({ head, label, children }: { head: string[]; label: string; children: ReactNode }) {
  return (
    <section className="wide" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {head.map((one, index) => (
              <th key={one} scope="col" className={index > 0 ? "number" : undefined}>
                {one}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

interface Asked {
  decision: DecisionDetail;
  job: string;
  code: string;
  set: (name: string, value: string) => void;
}

function Waiting({ decision: { codes, waiting, matching, reasons }, job, code, set }: Asked) {
  // The list of decisions links here, before there is anything to scroll to.
  useEffect(() => {
    if (window.location.hash === "#waiting") document.getElementById("waiting")?.scrollIntoView();
  }, []);
  const all = Object.entries(codes);
  return (
    <section aria-labelledby="waiting">
      <h2 id="waiting">Left waiting</h2>
      {waiting === 0 ? (
        <p>No job: all that could start did.</p>
      ) : (
        <>
          <form className="filters" role="search" onSubmit={(event) => event.preventDefault()}>
            <NativeSelect
              label="Reason"
              value={code}
              data={[
                { value: "", label: "any" },
                ...all.map(([value, number]) => ({ value, label: `${value} (${number.toLocaleString()})` })),
              ]}
              onChange={(event) => set("code", event.currentTarget.value)}
            />
            <Filter name="job" value={job} set={set} />
          </form>
          <p className="note" aria-live="polite">
            {matching === waiting ? count(waiting, "job") : `${matching.toLocaleString()} of ${count(waiting, "job")}`}
            {reasons.length < matching && `. The first ${reasons.length.toLocaleString()} show; search for the others`}
          </p>
          {reasons.length === 0 ? (
            <Empty title="No job matches">Take the filter away, or search for a part of the name.</Empty>
          ) : (
            <Long items={reasons} label="Jobs left waiting, with their reasons">
              {(one) => (
                <>
                  <JobLink {...one} />: {one.reason.text}
                </>
              )}
            </Long>
          )}
        </>
      )}
    </section>
  );
}

function Record({ id, path }: { id: number; path: string }) {
  const may = useQuery({
    queryKey: ["rights", "replay", id],
    queryFn: () => allowedPath("post", `${path}/replay`),
    staleTime: 60_000,
  });
  const replay = useMutation({ mutationFn: () => write<Replay>("POST", `${path}/replay`, {}) });
  return (
    <section aria-labelledby="record">
      <h2 id="record">Record and replay</h2>
      <p>
        The record has all that the decision looked at. A replay decides again from it, with the answers that the solver
        gave then, and compares the plans. It changes nothing.
      </p>
      <div className="buttons">
        <a href={`${path}/record`} download={`decision-${id}.json`}>
          Save the record
        </a>
        {may.data && (
          <Button variant="default" disabled={replay.isPending} onClick={() => replay.mutate()}>
            {replay.isPending ? "Replaying …" : "Replay"}
          </Button>
        )}
        <span role="status">
          {replay.data &&
            (replay.data.reproduced
              ? `The replay gives the same plan, in ${milliseconds(replay.data.ms)}.`
              : `The replay gives another plan: ${replay.data.differ.join(", ")} differ.`)}
        </span>
      </div>
      {replay.error && (
        <p className="bad-text" role="alert">
          {replay.error.message}
        </p>
      )}
      <p>In a terminal, on any machine with Fleet:</p>
      <pre tabIndex={0}>fleet decide decision-{id}.json</pre>
    </section>
  );
}
