/** Kubernetes quantities as numbers, and numbers as text for people. */

const FACTORS: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};
const QUANTITY = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/;

export function amount(quantity: string | undefined): number {
  const [, digits, suffix] = QUANTITY.exec(quantity ?? "0") ?? [];
  return Number(digits ?? 0) * (FACTORS[suffix ?? ""] ?? 1);
}

export function isQuantity(text: string): boolean {
  const [, digits, suffix] = QUANTITY.exec(text) ?? [];
  return digits !== undefined && !Number.isNaN(Number(digits)) && (suffix ?? "") in FACTORS;
}

const isGpu = (resource: string) => resource.endsWith("/gpu");

export function gpus(amounts: Record<string, string> | undefined): number {
  return Object.entries(amounts ?? {}).reduce((sum, [name, value]) => sum + (isGpu(name) ? amount(value) : 0), 0);
}

export function count(value: number, noun: string): string {
  return `${value.toLocaleString()} ${noun}${value === 1 ? "" : "s"}`;
}

/** Memory as GiB or TiB, all else with at most two decimals. */
export function readable(resource: string, value: number): string {
  if (resource !== "memory") return value.toLocaleString(undefined, { maximumFractionDigits: 2 });
  const gib = value / 2 ** 30;
  const [shown, unit] = gib >= 1024 ? [gib / 1024, "TiB"] : [gib, "GiB"];
  return `${shown.toLocaleString(undefined, { maximumFractionDigits: 1 })} ${unit}`;
}
