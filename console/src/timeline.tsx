/** The life of a job: the times of which the hub knows, as one bar and as a list. */

import type { JobDetail, Life } from "./api";
import { At, duration, useNow } from "./times";

interface Span {
  tone: string;
  name: string;
  from: string;
  to: string | null;
}

function spans(job: JobDetail, life: Life | null): Span[] {
  const begin = life?.submitted ?? job.created;
  if (begin === null) return [];
  const found: Span[] = [];
  let waitsFrom: string = begin;
  for (const one of life?.placements ?? []) {
    found.push({ tone: "waits", name: "waits", from: waitsFrom, to: one.placed });
    found.push({ tone: "going", name: `starts in ${one.member}`, from: one.placed, to: one.started ?? one.ended });
    if (one.started) {
      const outcome = one.outcome ? `, ${one.outcome}${one.why ? ` (${one.why})` : ""}` : "";
      found.push({
        tone: one.outcome === "Failed" || one.outcome === "Evicted" ? "bad" : "good",
        name: `runs in ${one.member}${outcome}`,
        from: one.started,
        to: one.ended,
      });
    }
    waitsFrom = one.ended ?? one.started ?? one.placed;
  }
  const last = life?.placements.at(-1);
  const over = job.finished !== null || ["Succeeded", "Failed", "Deleted"].includes(job.state);
  if (!over && (last === undefined || last.ended !== null))
    found.push({ tone: "waits", name: "waits", from: waitsFrom, to: null });
  return found;
}

/** The place of a life that the hub has not told yet, so that what is below does not jump. */
export function Coming({ placed }: { placed: boolean }) {
  return (
    <section className={placed ? "coming placed" : "coming"} aria-busy="true">
      <h2>Its life</h2>
    </section>
  );
}

export function Timeline({ job, life }: { job: JobDetail; life: Life | null }) {
  const now = useNow();
  const found = spans(job, life).map((one) => {
    const end = one.to === null ? now : new Date(one.to).getTime();
    return { ...one, seconds: Math.max(0, (end - new Date(one.from).getTime()) / 1000) };
  });
  const whole = found.reduce((sum, one) => sum + one.seconds, 0) || 1;
  const reasons = (life?.waits ?? []).map((one) => `${one.reason} ${duration(one.seconds)}`);
  return (
    <section aria-labelledby="life">
      <h2 id="life">Its life</h2>
      <div className="bar tall" aria-hidden="true">
        {found.map((one) => (
          <span
            key={`${one.name} ${one.from}`}
            className={one.tone}
            title={`${one.name}: ${duration(one.seconds)}`}
            style={{ width: `${(100 * one.seconds) / whole}%` }}
          />
        ))}
      </div>
      <ol className="life">
        {found.map((one) => (
          <li key={`${one.name} ${one.from}`}>
            <At at={one.from} /> <span className={`state ${one.tone}`}>{one.name}</span> {duration(one.seconds)}
            {one.to === null && ", goes on"}
          </li>
        ))}
      </ol>
      {reasons.length > 0 && <p className="note">Waits by reason: {reasons.join(", ")}</p>}
    </section>
  );
}
