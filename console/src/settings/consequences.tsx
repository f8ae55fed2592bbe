/** The jobs that a draft of the quota tree would make a difference to. */

import { Link } from "react-router";
import { count } from "../amounts";
import { Refusal, write } from "../api";
import { limitEdits, type Tree } from "./tree";

interface Side {
  state: string;
  member: string | null;
  reason: { text: string } | null;
}

interface Row {
  unit: string;
  job: string;
  change: string;
  before: Side | null;
  after: Side | null;
}

export interface Answer {
  rows: Row[];
  waiting: { before: number; after: number };
  others: { leaf: string; change: string; jobs: number; gpus: number }[];
}

const EDITS_MOST = 100;
const SHOWN_MOST = 200;
const GROUPS: [string, string[]][] = [
  ["Starts", ["starts"]],
  ["Evicted, or moved", ["stops", "moves", "leaves", "unreachable", "removed"]],
  ["Waits longer", ["later"]],
  ["Waits less long", ["sooner"]],
  ["Other changes", ["waits", "stays"]],
];

/** The hub's answer. A user without the right to all edits asks with limits alone. */
export async function consequences(base: Tree, draft: Tree): Promise<Answer> {
  const ask = (edits: object[]) => write<Answer>("POST", "/fleet/v1/what-if", { edits });
  try {
    return await ask([{ ReplaceTree: { tree: draft } }]);
  } catch (error) {
    const edits = limitEdits(base.spec.root, draft.spec.root);
    const mayNot = error instanceof Refusal && error.code === 403;
    if (!mayNot || edits === null || edits.length === 0 || edits.length > EDITS_MOST) throw error;
    return await ask(edits);
  }
}

const told = (side: Side | null) =>
  side === null ? "nothing" : `${side.state.toLowerCase()}${side.member ? ` in ${side.member}` : ""}`;

export function Consequences({ answer }: { answer: Answer }) {
  const groups = GROUPS.map(([title, changes]) => [title, answer.rows.filter((one) => changes.includes(one.change))]);
  return (
    <section aria-label="What would change">
      <h3>What would change</h3>
      <p>
        Jobs that wait: {answer.waiting.before} now, {answer.waiting.after} then.
        {answer.rows.length === 0 && answer.others.length === 0 && " No job would notice the change."}
      </p>
      {(groups as [string, Row[]][])
        .filter(([, rows]) => rows.length > 0)
        .map(([title, rows]) => (
          <div key={title}>
            <h4>
              {title}: {count(rows.length, "job")}
            </h4>
            <ul className="events">
              {rows.slice(0, SHOWN_MOST).map((row) => (
                <li key={row.unit}>
                  <Link to={jobsOf(row.job)}>{row.job}</Link>
                  <span>
                    {told(row.before)} → {told(row.after)}
                  </span>
                  <span className="why">{row.after?.reason?.text ?? ""}</span>
                </li>
              ))}
            </ul>
          </div>
        ))}
      {answer.others.map((one) => (
        <p key={one.leaf + one.change} className="note">
          Not yours: {count(one.jobs, "job")} of {one.leaf} ({count(one.gpus, "GPU")}): {one.change}
        </p>
      ))}
    </section>
  );
}

function jobsOf(job: string): string {
  const [namespace = "", name = ""] = job.split("/");
  return `/jobs?namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`;
}
