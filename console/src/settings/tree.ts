/** The quota tree as it is edited: its simple faults, the differences of two trees, and their merge. */

import { amount, isQuantity } from "../amounts";

export type Limits = Record<string, string | number>;

export interface Node {
  name: string;
  min?: Limits;
  max?: Limits;
  namespaces?: string[];
  attributes?: Record<string, string>;
  requireQueue?: boolean;
  children?: Node[];
}

export interface Tree {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace: string;
    resourceVersion?: string;
    managedFields?: { manager?: string; time?: string }[];
  };
  spec: { root: Node };
}

/** A fault of a field, as the hub names fields: spec.root.children[0].min[cpu]. */
export interface Fault {
  field: string;
  message: string;
}

export const ROOT = "spec.root";
export const WEIGHT = "quota.scheduling.koordinator.sh/shared-weight";
export const EMPTY: Tree = {
  apiVersion: "scheduling.sigs.k8s.io/v1beta1",
  kind: "ElasticQuotaTree",
  metadata: { name: "elasticquotatree", namespace: "kube-system" },
  spec: { root: { name: "root", min: {}, max: {} } },
};

export const childField = (field: string, index: number) => `${field}.children[${index}]`;

/** GPUs first, then by name. */
export function resourcesOf(node: Node): string[] {
  const names = [...new Set([...Object.keys(node.min ?? {}), ...Object.keys(node.max ?? {})])];
  return names.sort((a, b) => Number(b.endsWith("/gpu")) - Number(a.endsWith("/gpu")) || a.localeCompare(b));
}

function limitFaults(node: Node, field: string): Fault[] {
  const found: Fault[] = [];
  for (const side of ["min", "max"] as const)
    for (const [resource, value] of Object.entries(node[side] ?? {})) {
      const where = `${field}.${side}[${resource}]`;
      if (!isQuantity(String(value))) found.push({ field: where, message: "must be a quantity such as 8 or 64Gi" });
      else if (amount(String(value)) < 0) found.push({ field: where, message: "must not be negative" });
      else if (side === "min" && node.max?.[resource] !== undefined) {
        const max = String(node.max[resource]);
        if (amount(String(value)) > amount(max))
          found.push({ field: where, message: `min must not be above max (${max})` });
      }
    }
  return found;
}

/** The faults that need no hub to be seen. */
export function faultsOf(node: Node, field = ROOT, names = new Map<string, string>()): Fault[] {
  const found = limitFaults(node, field);
  const other = names.get(node.name);
  if (!node.name) found.push({ field: `${field}.name`, message: "a queue needs a name" });
  else if (node.name.includes("/"))
    found.push({ field: `${field}.name`, message: 'must not contain "/", which separates levels' });
  else if (other !== undefined) found.push({ field: `${field}.name`, message: `${other} has this name, too` });
  names.set(node.name, field);
  for (const [index, child] of (node.children ?? []).entries())
    found.push(...faultsOf(child, childField(field, index), names));
  return found;
}

/** What is wrong with a value that is to be a node; null for a node. */
export function shapeFault(value: unknown, field = ROOT): Fault | null {
  const fault = (where: string, message: string) => ({ field: where, message });
  if (!isRecord(value)) return fault(field, "must be an object");
  if (typeof value.name !== "string") return fault(`${field}.name`, "must be a text");
  for (const side of ["min", "max", "attributes"])
    if (value[side] !== undefined && !isRecord(value[side])) return fault(`${field}.${side}`, "must be an object");
  if (value.namespaces !== undefined && !Array.isArray(value.namespaces))
    return fault(`${field}.namespaces`, "must be a list");
  if (value.children === undefined) return null;
  if (!Array.isArray(value.children)) return fault(`${field}.children`, "must be a list");
  for (const [index, child] of value.children.entries()) {
    const found = shapeFault(child, childField(field, index));
    if (found) return found;
  }
  return null;
}

/** What is wrong with a manifest that is to be another form of `tree`; null for nothing. */
export function manifestFault(value: unknown, tree: Tree): Fault | null {
  if (!isRecord(value)) return { field: "", message: "an ElasticQuotaTree is wanted" };
  if (value.kind !== tree.kind) return { field: "kind", message: `must be ${tree.kind}` };
  const { name, namespace = tree.metadata.namespace } = isRecord(value.metadata) ? value.metadata : {};
  if (name !== tree.metadata.name) return { field: "metadata.name", message: `must be ${tree.metadata.name}` };
  if (namespace !== tree.metadata.namespace)
    return { field: "metadata.namespace", message: `must be ${tree.metadata.namespace}` };
  return shapeFault(isRecord(value.spec) ? value.spec.root : undefined);
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const KNOWN = ["name", "min", "max", "attributes", "namespaces", "children"];

/** The values of a tree, each under the queue and the field that has it. */
function flat(node: Node, path = node.name, into = new Map<string, string>()): Map<string, string> {
  into.set(`queue ${path}`, "there");
  for (const side of ["min", "max"] as const)
    for (const [resource, value] of Object.entries(node[side] ?? {}))
      into.set(`${path}: ${side} of ${resource}`, String(value));
  for (const [name, value] of Object.entries(node.attributes ?? {})) into.set(`${path}: ${name}`, value);
  if (node.namespaces?.length) into.set(`${path}: namespaces`, node.namespaces.join(", "));
  for (const [name, value] of Object.entries(node))
    if (!KNOWN.includes(name) && value !== false) into.set(`${path}: ${name}`, JSON.stringify(value));
  for (const child of node.children ?? []) flat(child, `${path}/${child.name}`, into);
  return into;
}

/** What is different in `after`, one line for each field. */
export function differences(before: Node, after: Node): string[] {
  const [old, now] = [flat(before), flat(after)];
  return [...new Set([...old.keys(), ...now.keys()])]
    .filter((key) => old.get(key) !== now.get(key))
    .map((key) => `${key}: ${old.get(key) ?? "none"} → ${now.get(key) ?? "none"}`);
}

function mergedMap<T>(base: Record<string, T> = {}, mine: Record<string, T> = {}, theirs: Record<string, T> = {}) {
  const result = { ...theirs };
  for (const key of new Set([...Object.keys(base), ...Object.keys(mine)])) {
    if (String(mine[key]) === String(base[key])) continue;
    if (mine[key] === undefined) delete result[key];
    else result[key] = mine[key];
  }
  return result;
}

/** `theirs` with the changes that lead from `base` to `mine`. Queues are the same by their names. */
export function merged(base: Node, mine: Node, theirs: Node): Node {
  const pick = <T>(old: T, my: T, their: T) => (JSON.stringify(my) === JSON.stringify(old) ? their : my);
  const named = (nodes: Node[] | undefined) => new Map((nodes ?? []).map((one) => [one.name, one]));
  const [old, my] = [named(base.children), named(mine.children)];
  const children = (theirs.children ?? []).flatMap((their) => {
    const [before, now] = [old.get(their.name), my.get(their.name)];
    if (now) return [merged(before ?? now, now, their)];
    return before ? [] : [their];
  });
  const there = new Set(children.map((one) => one.name));
  for (const one of mine.children ?? []) {
    const before = old.get(one.name);
    const changed = before === undefined || JSON.stringify(before) !== JSON.stringify(one);
    if (!there.has(one.name) && changed) children.push(one);
  }
  const result: Node = {
    ...theirs,
    name: pick(base.name, mine.name, theirs.name),
    min: mergedMap(base.min, mine.min, theirs.min),
    max: mergedMap(base.max, mine.max, theirs.max),
    attributes: mergedMap(base.attributes, mine.attributes, theirs.attributes),
    namespaces: pick(base.namespaces, mine.namespaces, theirs.namespaces),
    requireQueue: pick(base.requireQueue, mine.requireQueue, theirs.requireQueue),
    children,
  };
  return tidy(result);
}

/** The same node without fields that say nothing. */
function tidy(node: Node): Node {
  const kept = Object.entries(node).filter(
    ([key, value]) =>
      value !== undefined &&
      !(key === "children" && (value as Node[]).length === 0) &&
      !(key === "attributes" && Object.keys(value as object).length === 0),
  );
  return Object.fromEntries(kept) as unknown as Node;
}

/** Whether two trees differ in limits alone; then these as edits of a question what would be otherwise. */
export function limitEdits(before: Node, after: Node): object[] | null {
  const edits: object[] = [];
  const walk = (old: Node, now: Node, path: string): boolean => {
    const bare = (node: Node) => JSON.stringify({ ...node, min: 0, max: 0, children: node.children?.length ?? 0 });
    if (bare(old) !== bare(now)) return false;
    for (const side of ["min", "max"] as const)
      for (const resource of new Set([...Object.keys(old[side] ?? {}), ...Object.keys(now[side] ?? {})])) {
        const value = now[side]?.[resource];
        if (String(value) === String(old[side]?.[resource])) continue;
        const units = Math.ceil(amount(String(value)) * (resource === "cpu" ? 1000 : 1));
        const set = { node: path, limit: side, resource, amount: value === undefined ? null : units };
        edits.push({ SetLimit: set });
      }
    return (old.children ?? []).every((child, index) => {
      const next = now.children?.[index];
      return next !== undefined && walk(child, next, `${path}/${child.name}`);
    });
  };
  return walk(before, after, before.name) ? edits : null;
}
