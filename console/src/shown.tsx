/** The small parts that several pages show. */

import { Alert, Button, Skeleton } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { Refusal } from "./api";

const TONES: Record<string, string> = {
  Running: "good",
  Succeeded: "good",
  Created: "going",
  Placed: "going",
  Reserved: "going",
  Failed: "bad",
  Evicting: "bad",
  Held: "held",
  Suspended: "held",
  Deleting: "held",
};

export const OVER = ["Succeeded", "Failed"]; // states of jobs that have ended

export function State({ state }: { state: string }) {
  return <span className={`state ${TONES[state] ?? "waits"}`}>{state}</span>;
}

function advice(error: Error): string {
  const code = error instanceof Refusal ? error.code : -1;
  if (code === 403) return "An administrator of the hub can give you the right to see this.";
  if (code === 404) return "It may be gone. The list of jobs shows what is there.";
  if (code === 0) return "The page asks again by itself when the hub is back.";
  return "Try again. If it stays, `fleet doctor` says what is wrong with the hub.";
}

export function Trouble({ error, again }: { error: Error; again?: () => void }) {
  return (
    <Alert title={error.message} className="trouble" role="alert">
      <p>{advice(error)}</p>
      {again && (
        <Button size="xs" variant="default" onClick={again}>
          Try again
        </Button>
      )}
    </Alert>
  );
}

/** What a query found; until then a space of the same height, so that nothing jumps. */
export function Loaded<T>({
  query,
  height = 120,
  children,
}: {
  query: UseQueryResult<T>;
  height?: number;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <Trouble error={query.error} again={() => void query.refetch()} />;
  return <Skeleton height={height} aria-hidden="true" />;
}

export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      <p>{children}</p>
    </div>
  );
}

export function Figure({ label, value, note }: { label: string; value: ReactNode; note?: string }) {
  return (
    <div className="figure">
      <dt>{label}</dt>
      <dd>
        {value}
        {note && <small> {note}</small>}
      </dd>
    </div>
  );
}

/** A bar of parts of `whole`. `label` says the same in words. */
export function Bar({ parts, whole, label }: { parts: [string, number][]; whole: number; label: string }) {
  return (
    <div className="bar" role="img" aria-label={label} title={label}>
      {parts.map(([tone, value]) => (
        <span key={tone} className={tone} style={{ width: `${whole > 0 ? (100 * value) / whole : 0}%` }} />
      ))}
    </div>
  );
}

export function MemberLink({ name }: { name: string }) {
  return (
    <Link to={`/jobs?member=${encodeURIComponent(name)}`} title={`Jobs in ${name} now`}>
      {name}
    </Link>
  );
}
