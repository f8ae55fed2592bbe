/** Requests to the hub. The cookie of the session goes with each of them, so no page ever holds a token. */

import type { components } from "./fleet";

type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type JobDetail = Schemas["JobDetail"];
export type JobList = Schemas["JobList"];
export type Explanation = Schemas["Explanation"];
export type Queue = Schemas["Queue"];
export type QueueList = Schemas["QueueList"];
export type Cluster = Schemas["Cluster"];
export type ClusterList = Schemas["ClusterList"];
export type Life = Schemas["Life"];
export type PastJobList = Schemas["PastJobList"];
export type HistoryReport = Schemas["HistoryReport"];
export type UsageOverTime = Schemas["UsageOverTime"];
export type Changes = Schemas["Changes"];
export type NodeList = Schemas["NodeList"];
export type GpuNode = Schemas["Node"];
export type GpuUse = Schemas["GpuUse"];
export type HubStatus = Schemas["HubStatus"];
export type Decision = Schemas["Decision"];
export type DecisionList = Schemas["DecisionList"];
export type DecisionDetail = Schemas["DecisionDetail"];
export type Replay = Schemas["Replay"];

export interface Session {
  user: { name: string; groups: string[] };
  expires: string;
  idleExpires: string;
  methods: string[];
}

export interface Methods {
  methods: string[];
  issuer?: string;
}

export interface Cause {
  field?: string;
  message?: string;
}

/** A refusal of the hub. `code` 0: the hub did not answer. `causes` name the fields that are wrong. */
export class Refusal extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly causes: Cause[] = [],
  ) {
    super(message);
  }
}

const lost = new Set<() => void>();

/** Calls `act` when the hub no longer knows the session. Returns the way to stop that. */
export function whenSignedOut(act: () => void): () => void {
  lost.add(act);
  return () => {
    lost.delete(act);
  };
}

async function refusal(response: Response): Promise<Refusal> {
  const text = await response.text();
  try {
    const { message, details } = JSON.parse(text);
    return new Refusal(response.status, message ?? text, details?.causes ?? []);
  } catch {
    return new Refusal(response.status, text || response.statusText);
  }
}

export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Refusal(0, "The hub does not answer.");
  }
  if (response.ok) return response;
  if (response.status === 401 && !path.startsWith("/console/")) for (const act of lost) act();
  throw await refusal(response);
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, { signal, headers: { accept: "application/json" } })).json() as Promise<T>;
}

/** The answer, or null where the hub has no such thing, or does not let the user see it. */
export async function found<T>(path: string, signal?: AbortSignal): Promise<T | null> {
  try {
    return await get<T>(path, signal);
  } catch (error) {
    if (error instanceof Refusal && (error.code === 404 || error.code === 403)) return null;
    throw error;
  }
}

/** `body`: a text of that type, or a value that becomes JSON. */
export async function write<T>(
  method: string,
  path: string,
  body: unknown,
  type = "application/json",
  signal?: AbortSignal,
): Promise<T> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await send(path, { method, body: text, headers: { "content-type": type }, signal });
  return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
}

export function patch(path: string, body: unknown): Promise<unknown> {
  return write("PATCH", path, body, "application/merge-patch+json");
}

/** The parts of a job in a path below /fleet/v1/jobs or /fleet/v1/history. */
export function jobPath(job: { namespace: string; kind: string; name: string }): string {
  return [job.namespace, job.kind, job.name].map(encodeURIComponent).join("/");
}

export interface Attributes {
  verb: string;
  group?: string;
  resource: string;
  subresource?: string;
  namespace?: string;
  name?: string;
}

/** Whether the user may do that, as the hub itself says. */
export function allowed(attributes: Attributes): Promise<boolean> {
  return reviewed({ resourceAttributes: attributes });
}

/** The same of a path that is no resource. */
export function allowedPath(verb: string, path: string): Promise<boolean> {
  return reviewed({ nonResourceAttributes: { verb, path } });
}

async function reviewed(spec: object): Promise<boolean> {
  const review = await write<{ status: { allowed: boolean } }>(
    "POST",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec,
    },
  );
  return review.status.allowed;
}
