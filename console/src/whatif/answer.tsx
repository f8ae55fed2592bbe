/** The answer to a what-if question: the jobs with another fate, by what becomes of them. */

import { Link } from "react-router";
import { count } from "../amounts";
import { type Explanation, jobPath } from "../api";
import { addressOf, type Edit, named } from "../edits";
import { At } from "../times";

interface Standing {
  state: string;
  member: string | null;
  reason: { code: string; text: string } | null;
  start: { p10: number; p50: number; p90: number | null } | null;
}

interface Row {
  unit: string;
  job: string;
  kind: string | null;
  leaf: string | null;
  change: string;
  before: Standing;
  after: Standing;
}

interface Bound {
  unit: string;
  job: string;
  kind: string | null;
  reason: { text: string };
  changes: Explanation["changes"];
}

export interface Comparison {
  now: number;
  rows: Row[];
  waiting: { before: number; after: number };
  until: number;
  noTimes: string;
  endless: number;
  bound: Bound[];
  boundOf: number;
  others: { leaf: string | null; change: string; jobs: number; gpus: number }[];
}

const HORIZON_S = 30 * 86_400;
const SHOWN = 200; // of each group
const GROUPS: [string, string[]][] = [
  ["Start now", ["starts"]],
  ["Go to another member", ["moves"]],
  ["Stop, and wait again", ["stops", "leaves"]],
  ["Stay after all", ["stays"]],
  ["Cannot be reached", ["unreachable"]],
  ["Start earlier", ["sooner"]],
  ["Start later", ["later"]],
  ["Wait", ["waits"]],
  ["Removed", ["removed"]],
];
const SAID: Record<string, string> = {
  Absent: "not there",
  Runs: "runs in",
  Starts: "starts in",
  Leaves: "leaves",
  Waits: "waits",
  Unreachable: "cannot be reached in",
};

export function Answer({ found, edits }: { found: Comparison; edits: Edit[] }) {
  const { before, after } = found.waiting;
  return (
    <>
      <p>
        {count(before, "job")} {before === 1 ? "waits" : "wait"} as things are, {after} after the edits.
      </p>
      {found.rows.length === 0 && found.others.length === 0 && (
        <p>
          <strong>No difference.</strong> Each job starts, runs and waits as it does without the edits.
        </p>
      )}
      {GROUPS.map(([title, changes]) => (
        <Group
          key={title}
          title={title}
          rows={found.rows.filter((row) => changes.includes(row.change))}
          found={found}
        />
      ))}
      {found.others.length > 0 && (
        <>
          <h3>Jobs that you may not see</h3>
          <ul>
            {found.others.map((one) => (
              <li key={`${one.leaf}-${one.change}`}>
                {count(one.jobs, "job")} of {one.leaf ?? "no queue"} ({count(one.gpus, "GPU")}): {one.change}
              </li>
            ))}
          </ul>
        </>
      )}
      {found.bound.map((one) => (
        <Still key={one.unit} bound={one} edits={edits} />
      ))}
      {found.boundOf > found.bound.length && (
        <p className="note">
          {found.bound.length} of {found.boundOf} jobs that wait all the same are shown.
        </p>
      )}
      <Limits found={found} />
    </>
  );
}

function Group({ title, rows, found }: { title: string; rows: Row[]; found: Comparison }) {
  if (rows.length === 0) return null;
  return (
    <section aria-label={title}>
      <h3>
        {title} <small>{count(rows.length, "job")}</small>
      </h3>
      <ul className="events">
        {rows.slice(0, SHOWN).map((row) => (
          <li key={row.unit}>
            <JobLink job={row.job} kind={row.change !== "removed" && row.before.state === "Absent" ? null : row.kind} />
            <span>{row.leaf ?? "no queue"}</span>
            <span>
              {standing(row.before)} → {standing(row.after)}
            </span>
            <span>
              start: <Start standing={row.before} found={found} /> → <Start standing={row.after} found={found} />
            </span>
            {row.after.reason && <span className="why">{row.after.reason.text}</span>}
          </li>
        ))}
      </ul>
      {rows.length > SHOWN && <p className="note">The first {SHOWN} are shown.</p>}
    </section>
  );
}

/** A link to the page of a job; the name alone for a job that is not there. */
function JobLink({ job, kind }: { job: string; kind: string | null }) {
  const [namespace = "", name = ""] = job.split("/");
  if (kind === null) return <strong>{job}</strong>;
  return <Link to={`/jobs/${jobPath({ namespace, kind, name })}`}>{job}</Link>;
}

function standing({ state, member }: Standing): string {
  return member ? `${SAID[state] ?? state} ${member}` : (SAID[state] ?? state);
}

function Start({ standing: { state, start }, found }: { standing: Standing; found: Comparison }) {
  if (state === "Starts") return <>now</>;
  if (state === "Absent" || state === "Runs") return <>–</>;
  if (start === null) return <>{found.noTimes ? "unknown" : "not before the end of the forecast"}</>;
  return (
    <>
      <At at={instant(start.p50)} />
      {start.p10 !== start.p50 && (
        <small>
          {" "}
          (<At at={instant(start.p10)} /> to {start.p90 === null ? "later" : <At at={instant(start.p90)} />})
        </small>
      )}
    </>
  );
}

const instant = (seconds: number) => new Date(seconds * 1000).toISOString();

/** A job that an edit was to start, and that waits all the same. */
function Still({ bound, edits }: { bound: Bound; edits: Edit[] }) {
  return (
    <section aria-label={`${bound.job} waits all the same`}>
      <h3>{bound.job} waits all the same</h3>
      <p className="reason-text">{bound.reason.text}</p>
      {bound.changes.length > 0 && (
        <>
          <p>Each of these changes starts it, too:</p>
          <ul>
            {bound.changes.map((one) => (
              <li key={one.kind}>
                {one.text}{" "}
                {one.edits.length > 0 && (
                  <Link to={addressOf([...edits, ...named(one.edits as Edit[], bound.unit, bound.job)])}>
                    Add to the question
                  </Link>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

/** Where the forecast ends, and why it may be late. */
function Limits({ found }: { found: Comparison }) {
  if (found.noTimes) return <p className="note">No times: {found.noTimes}.</p>;
  return (
    <p className="note">
      The forecast ends <At at={instant(found.until)} />
      {found.until < found.now + HORIZON_S && ", when its time was over: later starts are unknown"}.{" "}
      {found.endless > 0 &&
        `${count(found.endless, "job")} ${found.endless === 1 ? "has" : "have"} no known end and ${found.endless === 1 ? "is" : "are"} taken to go on. `}
      Jobs that are submitted later are not in it.
    </p>
  );
}
