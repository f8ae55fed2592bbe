/** The manifest of a job: where its replica types are, and changes of single fields. */

import { get } from "./api";

export type Body = { [field: string]: unknown };

/** `replicas` and `containers` are the paths of these fields. `name`: as in the manifest, "" for a Job. */
export interface Role {
  name: string;
  replicas: string[];
  containers: string[];
}

const GPU = "nvidia.com/gpu";
const CODE = "fleet-code"; // the volume with the code that `fleet run` sent along

export const read = (path: string) => get<Body>(path);

export function at(body: unknown, path: string[]): unknown {
  return path.reduce<unknown>((place, step) => (place as Body | null | undefined)?.[step], body);
}

/** The replica types of the kinds of Kubeflow, and of Job; none for other kinds. */
export function rolesOf(body: Body): Role[] {
  if (body.kind === "Job")
    return [{ name: "", replicas: ["spec", "parallelism"], containers: ["spec", "template", "spec", "containers"] }];
  const field = Object.keys((body.spec ?? {}) as Body).find((name) => name.endsWith("ReplicaSpecs"));
  if (field === undefined) return [];
  return Object.keys(at(body, ["spec", field]) as Body).map((name) => ({
    name,
    replicas: ["spec", field, name, "replicas"],
    containers: ["spec", field, name, "template", "spec", "containers"],
  }));
}

const containersOf = (body: Body, role: Role) => (at(body, role.containers) ?? []) as Body[];

/** The GPUs of one pod; null where no container names any. */
export function gpusOf(body: Body, role: Role): string | null {
  const found = containersOf(body, role).flatMap((one) => at(one, ["resources", "limits", GPU]) ?? []);
  return found.length === 0 ? null : String(found[0]);
}

/** Gives the first container that has GPUs another number of them. */
export function setGpus(body: Body, role: Role, gpus: string): void {
  for (const one of containersOf(body, role)) {
    if (at(one, ["resources", "limits", GPU]) === undefined) continue;
    for (const part of ["limits", "requests"]) {
      const amounts = at(one, ["resources", part]) as Body | undefined;
      if (amounts && GPU in amounts) amounts[GPU] = gpus;
    }
    return;
  }
}

export function hasCode(body: Body): boolean {
  return rolesOf(body).some((role) =>
    ((at(body, [...role.containers.slice(0, -1), "volumes"]) ?? []) as Body[]).some(
      (one) => one.name === CODE && one.configMap,
    ),
  );
}

/** Changes one field, given as `fleet clone --set` takes it. Throws an Error that names what is wrong. */
export function put(body: Body, text: string): void {
  const equals = text.indexOf("=");
  const steps = text.slice(0, Math.max(0, equals)).split(".");
  if (equals < 1 || steps.some((step) => step === "")) throw new Error(`${text}: is not of the form spec.a.b=VALUE`);
  let place: unknown = body;
  steps.forEach((step, number) => {
    const here = steps.slice(0, number).join(".") || "the job";
    if (Array.isArray(place)) {
      if (!(Number(step) < place.length)) throw new Error(`${text}: ${here} has no item ${step}`);
    } else if (typeof place !== "object" || place === null) throw new Error(`${text}: ${here} has no fields`);
    const fields = place as Body;
    if (number === steps.length - 1) fields[step] = parsed(text.slice(equals + 1));
    else {
      if (!Object.hasOwn(fields, step)) fields[step] = {};
      place = fields[step];
    }
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Gives a field of the manifest another value. */
export function set(body: Body, path: string[], value: unknown): void {
  const place = at(body, path.slice(0, -1)) as Body;
  place[path.at(-1) ?? ""] = value;
}
