/** The taints by which people keep jobs from a member, as `fleet cordon` and `fleet drain` write them. */

import { type Cluster, get, patch, Refusal } from "./api";

interface Taint {
  key?: string;
  value?: string;
  effect?: string;
}

interface Stored {
  metadata: { resourceVersion: string };
  spec: { taints?: Taint[] };
}

const CORDON = "cluster.karmada.io/unschedulable";
const DRAIN = "fleet.io/drain";
const TRIES = 5; // where somebody else writes the Cluster at the same time

const own = (taint: { key?: string | null; effect?: string | null }) =>
  (taint.key === CORDON && taint.effect === "NoSchedule") || (taint.key === DRAIN && taint.effect === "NoExecute");

export const cordoned = (member: Cluster) => member.taints.some(own);
export const drains = (member: Cluster) => member.taints.some((taint) => taint.key === DRAIN && own(taint));

export function objectOf(member: string): string {
  return `/apis/cluster.karmada.io/v1alpha1/clusters/${encodeURIComponent(member)}`;
}

/** Taints are one list: a write that another came before is refused, and tried again. */
async function change(member: string, act: (taints: Taint[]) => Taint[]): Promise<void> {
  for (let left = TRIES - 1; ; left -= 1) {
    const { metadata, spec } = await get<Stored>(objectOf(member));
    const body = { metadata: { resourceVersion: metadata.resourceVersion }, spec: { taints: act(spec.taints ?? []) } };
    try {
      await patch(objectOf(member), body);
      return;
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 409 || left === 0) throw error;
    }
  }
}

const others = (taints: Taint[]) => taints.filter((taint) => !own(taint));

export const cordon = (member: string) =>
  change(member, (taints) => [...others(taints), { key: CORDON, effect: "NoSchedule" }]);
export const uncordon = (member: string) => change(member, others);
/** `perMinute`: jobs that leave in a minute. */
export const drain = (member: string, perMinute: number) =>
  change(member, (taints) => [
    ...others(taints),
    { key: CORDON, effect: "NoSchedule" },
    { key: DRAIN, value: `${perMinute}-per-minute`, effect: "NoExecute" },
  ]);
