/** What a person can ask in the form: for each edit its fields, and the edit that they make. */

import { baseUnits, type Edit } from "../edits";
import { readYaml } from "../yaml";

type Values = Record<string, string>;
/** The lists of the hub from which a field is chosen or completed. */
export type Choices = "queue" | "leaf" | "resource" | "member" | "job" | "tree";

export interface Field {
  name: string;
  label: string;
  from?: Choices;
  options?: string[];
  number?: boolean;
  /** Of many lines, as YAML or JSON. */
  text?: boolean;
  optional?: boolean;
  note?: string;
  value?: string;
}

export interface Form {
  label: string;
  /** Only for a user who may ask anything. */
  whole?: boolean;
  fields: Field[];
  /** Throws an Error that names the field. */
  make: (values: Values) => Edit;
}

const JOB: Field = { name: "unit", label: "Job", from: "job", note: "namespace/name" };
const FAILOVER: Record<string, Record<string, unknown>> = {
  "as policies say": { failover: "policy" },
  all: { failover: null },
  none: {},
};
const MEMBER: Field = { name: "member", label: "Member", from: "member" };
const COUNT: Omit<Field, "name" | "label"> = { number: true, value: "1" };
const POOL: Field = { name: "pool", label: "Node pool", number: true, value: "0", note: "numbered from 0" };

function quantity(label: string, resource: string, text: string): number {
  const found = baseUnits(resource, text);
  if (found === null) throw new Error(`${label}: ${text} is no quantity, such as 8, 500m or 64Gi`);
  return found;
}

function submitted({ namespace, name, workers, gpus, cpu = "", memory = "", leaf = "" }: Values): Edit {
  const resources = { limits: { "nvidia.com/gpu": gpus, cpu, memory } };
  const template = { spec: { containers: [{ name: "pytorch", image: "what-if", resources }] } };
  const more = Number(workers) - 1;
  const manifest = {
    apiVersion: "kubeflow.org/v1",
    kind: "PyTorchJob",
    metadata: {
      name,
      namespace,
      ...(leaf && { labels: { "quota.scheduling.alibabacloud.com/name": leaf.split("/").at(-1) } }),
    },
    spec: {
      pytorchReplicaSpecs: {
        Master: { replicas: 1, template },
        ...(more > 0 && { Worker: { replicas: more, template } }),
      },
    },
  };
  return { Submit: { manifest } };
}

function object(label: string, text: string): Record<string, unknown> {
  try {
    const { value } = readYaml(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch (error) {
    throw new Error(`${label}: ${(error as Error).message}`);
  }
  throw new Error(`${label}: must be an object`);
}

/** Of the manifest that kubectl prints, the tree alone. */
function replaced(text: string): Edit {
  const found = object("Quota tree", text);
  return { ReplaceTree: { tree: "spec" in found ? { spec: found.spec } : found } };
}

export const FORMS: Record<string, Form> = {
  limit: {
    label: "A limit of a queue",
    fields: [
      { name: "node", label: "Queue", from: "queue" },
      { name: "limit", label: "Limit", options: ["max", "min"] },
      { name: "resource", label: "Resource", from: "resource" },
      { name: "amount", label: "Amount", optional: true, note: "empty: no limit" },
    ],
    make: ({ amount = "", resource = "", ...rest }) => ({
      SetLimit: { ...rest, resource, amount: amount === "" ? null : quantity("Amount", resource, amount) },
    }),
  },
  submit: {
    label: "A new job",
    fields: [
      { name: "namespace", label: "Namespace", value: "default" },
      { name: "name", label: "Name", value: "new" },
      { name: "workers", label: "Pods", ...COUNT },
      { name: "gpus", label: "GPUs of each", ...COUNT },
      { name: "cpu", label: "CPU of each", value: "1" },
      { name: "memory", label: "Memory of each", value: "1Gi" },
      { name: "leaf", label: "Queue", from: "leaf", optional: true },
    ],
    make: submitted,
  },
  manifest: {
    label: "A new job, by its manifest",
    fields: [{ name: "manifest", label: "Manifest", text: true, note: "YAML or JSON" }],
    make: ({ manifest = "" }) => ({ Submit: { manifest: object("Manifest", manifest) } }),
  },
  tree: {
    label: "Another quota tree",
    whole: true,
    fields: [{ name: "tree", label: "Quota tree", text: true, from: "tree", note: "YAML or JSON" }],
    make: ({ tree = "" }) => replaced(tree),
  },
  remove: { label: "A job removed", fields: [JOB], make: ({ unit }) => ({ Remove: { unit } }) },
  hold: { label: "A job held", fields: [JOB], make: ({ unit }) => ({ Hold: { unit, held: true } }) },
  release: { label: "A job released", fields: [JOB], make: ({ unit }) => ({ Hold: { unit, held: false } }) },
  priority: {
    label: "Another priority of a job",
    fields: [JOB, { name: "priority", label: "Priority", number: true }],
    make: ({ unit, priority }) => ({ Prioritize: { unit, priority: Number(priority) } }),
  },
  size: {
    label: "Another size of a job",
    fields: [
      JOB,
      { name: "component", label: "Replica type", value: "worker" },
      { name: "replicas", label: "Replicas", ...COUNT },
    ],
    make: ({ unit, component, replicas }) => ({ Resize: { unit, component, replicas: Number(replicas) } }),
  },
  queue: {
    label: "Another queue of a job",
    fields: [JOB, { name: "leaf", label: "Queue", from: "leaf" }],
    make: ({ unit, leaf }) => ({ MoveTo: { unit, leaf } }),
  },
  nodes: {
    label: "More or fewer nodes in a member",
    whole: true,
    fields: [MEMBER, POOL, { name: "by", label: "Nodes more", ...COUNT, note: "below 0: fewer" }],
    make: ({ member, pool, by }) => ({ Scale: { member, pool: Number(pool), by: Number(by) } }),
  },
  add: {
    label: "A new member",
    whole: true,
    fields: [
      { name: "name", label: "Name", value: "new" },
      { name: "count", label: "Nodes", ...COUNT },
      { name: "gpus", label: "GPUs of each", number: true, value: "8" },
      { name: "cpu", label: "CPU of each", value: "96" },
      { name: "memory", label: "Memory of each", value: "800Gi" },
    ],
    make: ({ name, count, gpus, cpu, memory }) => ({
      AddMember: { member: { name, nodes: [{ count: Number(count), "nvidia.com/gpu": Number(gpus), cpu, memory }] } },
    }),
  },
  cordon: {
    label: "A member cordoned",
    whole: true,
    fields: [MEMBER],
    make: ({ member }) => ({ CordonMember: { member, cordoned: true } }),
  },
  uncordon: {
    label: "A member uncordoned",
    whole: true,
    fields: [MEMBER],
    make: ({ member }) => ({ CordonMember: { member, cordoned: false } }),
  },
  drain: {
    label: "A member drained",
    whole: true,
    fields: [MEMBER],
    make: ({ member }) => ({ DrainMember: { member } }),
  },
  lose: {
    label: "A member lost",
    whole: true,
    fields: [MEMBER, { name: "failover", label: "Jobs that start elsewhere", options: Object.keys(FAILOVER) }],
    make: ({ member, failover = "" }) => ({ LoseMember: { member, ...FAILOVER[failover] } }),
  },
};
