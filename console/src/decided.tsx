/** The words for a decision that its list and its page share. */

import { Link } from "react-router";
import { jobPath, Refusal } from "./api";
import { Empty, Trouble } from "./shown";

export function JobLink({ job, kind }: { job: string; kind: string }) {
  const [namespace = "", name = ""] = job.split("/");
  return kind && name ? <Link to={`/jobs/${jobPath({ namespace, kind, name })}`}>{job}</Link> : job;
}

export const answerOf = (shipped: string) => (shipped === "greedy" ? "backfill" : "the solver");

const WORDS: Record<string, string> = { AsGood: "the solver found nothing better", Better: "backfill is better" };

/** The causes of a certificate, as `fleet decide` words them. */
export const causeOf = (causes: { code: string; text: string }[]) =>
  causes.map(({ code, text }) => WORDS[code] ?? text).join("; ");

/** The proven quality of a plan. `gap`: a part; null where nothing is proven. */
export function quality(gap: number | null): string {
  if (gap === null) return "not proven";
  return gap === 0 ? "proven best" : `at most ${percent(gap)} below the best`;
}

const percent = (part: number) =>
  `${(100 * part).toLocaleString(undefined, { maximumFractionDigits: 1, minimumFractionDigits: 0 })} %`;

export function milliseconds(ms: number): string {
  return ms < 1000
    ? `${Math.round(ms)} ms`
    : `${(ms / 1000).toLocaleString(undefined, { maximumFractionDigits: 1 })} s`;
}

/** Why the hub shows no decision. */
export function NoDecision({ error, again }: { error: Error; again: () => void }) {
  const code = error instanceof Refusal ? error.code : -1;
  if (code === 403)
    return (
      <Empty title="You may not see decisions">
        Decisions name jobs of all namespaces. Your roles lack the right <code>get</code> on the path{" "}
        <code>/fleet/v1/decisions</code> and on those below it. The role <code>fleet-operator</code> has the right. An
        administrator can give it:{" "}
        <code>kubectl create clusterrolebinding NAME --clusterrole=fleet-operator --user=USER</code>
      </Empty>
    );
  if (code === 404)
    return (
      <Empty title="This decision is not kept">
        The hub keeps the newest records, up to 1 GiB. <Link to="/decisions">The list</Link> has those that are there.
      </Empty>
    );
  return <Trouble error={error} again={again} />;
}
