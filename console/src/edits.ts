/** The edits of a what-if question: in the address of the page, in words, and in base units. */

// They stand behind the # of the address, which goes to no server: a quota tree is longer than a path that a hub takes.

import { amount, count, readable } from "./amounts";

/** One edit of POST /fleet/v1/what-if: its name, and its fields. */
export type Edit = Record<string, Record<string, unknown>>;

const QUANTITY = /^\+?\d+(\.\d+)?([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?$/;

/** A quantity in base units, thousandths for CPU; null for text that is none. */
export function baseUnits(resource: string, text: string): number | null {
  if (!QUANTITY.test(text)) return null;
  return Math.ceil(amount(text) * (resource === "cpu" ? 1000 : 1));
}

/** The address that asks these edits. */
export function addressOf(edits: Edit[]): string {
  return edits.length === 0 ? "/what-if" : `/what-if#${asHash(edits)}`;
}

export function asHash(edits: Edit[]): string {
  return new URLSearchParams(edits.map((one) => ["edit", JSON.stringify(one)])).toString();
}

function isEdit(found: unknown): found is Edit {
  if (typeof found !== "object" || found === null) return false;
  const fields = Object.values(found);
  return fields.length === 1 && typeof fields[0] === "object" && fields[0] !== null;
}

/** The edits of an address, and how many parts of it are none. */
export function fromHash(hash: string): { edits: Edit[]; broken: number } {
  const texts = new URLSearchParams(hash.slice(1)).getAll("edit");
  const edits = texts.flatMap((text) => {
    try {
      const found: unknown = JSON.parse(text);
      return isEdit(found) ? [found] : [];
    } catch {
      return [];
    }
  });
  return { edits, broken: texts.length - edits.length };
}

/** The edits with a job named as people name it, and not by the id of its unit. */
export function named(edits: Edit[], unit: string, job: string): Edit[] {
  return edits.map((edit) =>
    Object.fromEntries(
      Object.entries(edit).map(([name, fields]) => [name, fields.unit === unit ? { ...fields, unit: job } : fields]),
    ),
  );
}

function limited({ node, limit, resource, amount: value }: Record<string, unknown>): string {
  if (value === null) return `no ${limit} of ${resource} in ${node}`;
  const shown =
    typeof value === "number" ? readable(String(resource), resource === "cpu" ? value / 1000 : value) : String(value);
  return `${limit} of ${resource} in ${node}: ${shown}`;
}

/** A tree as a manifest has it. */
interface Queues {
  children?: Queues[];
}

const queues = (node: Queues | undefined): number =>
  node === undefined ? 0 : (node.children ?? []).reduce((sum, one) => sum + queues(one), 1);

interface Manifest {
  kind?: string;
  metadata?: { namespace?: string; name?: string };
}

function failing(failover: unknown): string {
  if (failover === null) return "all its jobs start elsewhere";
  if (failover === "policy") return "the jobs whose policy has failover.cluster start elsewhere";
  return Array.isArray(failover) ? `${count(failover.length, "job")} of it may start elsewhere` : "its jobs stay";
}

/** One line for people. */
export function words(edit: Edit): string {
  const [name = "", fields = {}] = Object.entries(edit)[0] ?? [];
  const job = `job ${fields.unit}`;
  const member = `member ${fields.member}`;
  const by = Number(fields.by);
  switch (name) {
    case "SetLimit":
      return limited(fields);
    case "ReplaceTree": {
      const { spec } = (fields.tree ?? {}) as { spec?: { root?: Queues } };
      return `another quota tree, of ${count(queues(spec?.root), "queue")}`;
    }
    case "AddMember": {
      const { name: added, nodes = [] } = (fields.member ?? {}) as { name?: string; nodes?: { count?: number }[] };
      const nodesOf = nodes.reduce((sum, one) => sum + Number(one.count ?? 1), 0);
      return `a new member ${added} with ${count(nodesOf, "node")}`;
    }
    case "CordonMember":
      return `${member} ${fields.cordoned === false ? "uncordoned" : "cordoned"}`;
    case "DrainMember":
      return `${member} drained`;
    case "LoseMember":
      return `${member} lost; ${failing(fields.failover)}`;
    case "Scale":
      return `${count(Math.abs(by), "empty node")} ${by < 0 ? "fewer" : "more"} in ${member}, pool ${fields.pool}`;
    case "Submit": {
      const { kind = "job", metadata = {} } = (fields.manifest ?? {}) as Manifest;
      return `a new ${kind} ${metadata.namespace ?? "default"}/${metadata.name ?? ""}`;
    }
    case "Remove":
      return `${job} removed`;
    case "Hold":
      return `${job} ${fields.held === false ? "released" : "held"}`;
    case "Prioritize":
      return `${job} with priority ${fields.priority}`;
    case "MoveTo":
      return `${job} in queue ${fields.leaf}`;
    case "Resize":
      return `${job} with ${fields.replicas} × ${fields.component}`;
    default:
      return `${name} ${JSON.stringify(fields)}`;
  }
}
