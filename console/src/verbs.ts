/** Verbs on a job, as the commands of `fleet` write them. */

import { type JobDetail, patch, write } from "./api";
import { type Body, read, rolesOf } from "./manifest";

const HOLD = "fleet.io/hold";
const MOVE = "fleet.io/move-to";

interface Unit {
  spec?: { active?: boolean };
}

const annotate = (job: JobDetail, name: string, value: string | null) =>
  patch(job.object, { metadata: { annotations: { [name]: value } } });

export const hold = (job: JobDetail) => annotate(job, HOLD, "true");

/** `order`: whether the user may order the queue, in which somebody may hold the unit itself. */
export async function release(job: JobDetail, order: boolean): Promise<void> {
  await annotate(job, HOLD, null);
  if (!order || job.state !== "Held" || job.unit === null) return;
  const unit = (await patch(job.unit, {})) as Unit;
  if (unit.spec?.active === false) await patch(job.unit, { spec: { active: true } });
}

export async function prioritize(job: JobDetail, priority: number): Promise<void> {
  if (job.unit === null) throw new Error(`${job.name} waits in no queue`);
  await patch(job.unit, { spec: { priority } });
}

/** A newer job of the same name is left alone. */
export const cancel = (job: JobDetail) =>
  write("DELETE", job.object, { preconditions: { uid: job.uid }, propagationPolicy: "Background" });

/** The hub evicts the job where it is, and its next placement is in that member. */
export const move = (job: JobDetail, member: string) => annotate(job, MOVE, member);

/** Another number of pods of one replica type. Throws where the kind of the job has no such field. */
export async function resize(job: JobDetail, component: string, replicas: number): Promise<void> {
  const role = rolesOf(await read(job.object)).find((one) => one.name.toLowerCase() === component);
  if (role === undefined) throw new Error(`${job.kind} has no field for the number of ${component}`);
  let body: Body | number = replicas;
  for (const step of role.replicas.toReversed()) body = { [step]: body };
  await patch(job.object, body);
}
