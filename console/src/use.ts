/** What pods and GPUs use, as people read it. */

import { amount, count, readable } from "./amounts";
import type { PodUse } from "./logs";

/** `utilization` from 0 to 1, bytes and watts; null: the source does not tell it. */
export interface GpuFigures {
  utilization: number | null;
  used_bytes: number | null;
  memory_bytes: number | null;
  power_watts: number | null;
  idle: number;
}

export const USE_MS = 30_000; // between two questions; figures of GPUs are shared for 10 s, and kept once a minute

export function percent(ratio: number): string {
  return `${Math.round(100 * ratio)} %`;
}

function power(watts: number): string {
  return watts < 1_000 ? `${Math.round(watts)} W` : `${readable("", watts / 1_000)} kW`;
}

/** The figures that are told, such as "90 %, 80 GiB of 160 GiB, 700 W, 1 GPU idle". */
export function gpuUse(told: GpuFigures): string {
  const { utilization, used_bytes, memory_bytes, power_watts, idle } = told;
  const memory = used_bytes !== null && memory_bytes !== null;
  return [
    utilization !== null && percent(utilization),
    memory && `${readable("memory", used_bytes)} of ${readable("memory", memory_bytes)}`,
    power_watts !== null && power(power_watts),
    idle > 0 && `${count(idle, "GPU")} idle`,
  ]
    .filter(Boolean)
    .join(", ");
}

/** What a pod uses, as far as its member tells it. */
export function podUse(pod: PodUse): string {
  const gpu = pod.gpu && gpuUse(pod.gpu);
  const { cpu, memory } = pod.usage ?? {};
  return [gpu && `GPU ${gpu}`, cpu && `CPU ${readable("", amount(cpu))}`, memory && readable("memory", amount(memory))]
    .filter(Boolean)
    .join("; ");
}
