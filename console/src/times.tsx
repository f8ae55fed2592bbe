import { useEffect, useState } from "react";

const STEPS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Seconds as the one unit that fits: 42 s, 5 min, 3 h, 2 d. */
export function duration(seconds: number): string {
  const [size, unit] = STEPS.find(([step]) => seconds >= step) ?? [1, "s"];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

export function useNow(everyMs = 10_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** A time as its distance from now. The title has it exactly, in the zone of the reader. */
export function Ago({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (!at) return <span>–</span>;
  const then = new Date(at);
  const seconds = (now - then.getTime()) / 1000;
  return (
    <time dateTime={at} title={then.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" })}>
      {seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`}
    </time>
  );
}

/** A time as the clock of the reader shows it, with the day unless it is today. */
export function At({ at }: { at: string }) {
  const then = new Date(at);
  const today = new Date(useNow(60_000)).toDateString() === then.toDateString();
  return (
    <time dateTime={at} title={`${at} (UTC)`}>
      {then.toLocaleString(undefined, { dateStyle: today ? undefined : "short", timeStyle: "medium" })}
    </time>
  );
}
