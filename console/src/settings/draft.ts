/** The draft of the quota tree, kept in this tab of the browser over reloads until it is applied or thrown away. */

import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Refusal, type Session, write } from "../api";
import { TREES } from "../leaves";
import type { Fault, Node, Tree } from "./tree";

const KEPT = "fleet.settings.quota";

/** `base`: the tree as it was read when the draft began. */
export interface Draft {
  user: string;
  base: Tree;
  root: Node;
}

function kept(user: string): Draft | null {
  try {
    const draft = JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as Draft | null;
    return draft?.user === user ? draft : null;
  } catch {
    return null;
  }
}

export const forget = () => sessionStorage.removeItem(KEPT);

export function useUser(): string {
  return useQueryClient().getQueryData<Session>(["session"])?.user.name ?? "";
}

export function useDraft(): [Draft | null, (draft: { base: Tree; root: Node } | null) => void] {
  const user = useUser();
  const [draft, setDraft] = useState(() => kept(user));
  const put = (next: { base: Tree; root: Node } | null) => {
    const named = next && { ...next, user };
    if (named === null) forget();
    else sessionStorage.setItem(KEPT, JSON.stringify(named));
    setDraft(named);
  };
  return [draft, put];
}

export const treeOf = (draft: { base: Tree; root: Node }): Tree => ({
  ...draft.base,
  metadata: { ...draft.base.metadata, managedFields: undefined },
  spec: { ...draft.base.spec, root: draft.root },
});

/** Store the draft, or only have the hub check it. The hub refuses it where somebody has changed the tree meanwhile. */
export async function put(draft: Draft, dry: boolean): Promise<Tree> {
  const old = draft.base.metadata.resourceVersion !== undefined;
  const how = new URLSearchParams({ fieldValidation: "Strict", fieldManager: manager(draft.user) });
  if (dry) how.set("dryRun", "All");
  const path = old ? `${TREES}/${encodeURIComponent(draft.base.metadata.name)}` : TREES;
  return await write<Tree>(old ? "PUT" : "POST", `${path}?${how}`, treeOf(draft));
}

/** The name under which the hub notes a change: the next person who is in the way of it sees whose it was. */
const manager = (user: string) => `console of ${user}`.replace(/[^\x20-\x7e]/g, "?").slice(0, 128);

export interface Verdict {
  faults: Fault[];
  conflict: boolean;
  trouble: string; // a refusal that names no field
}

export async function checked(draft: Draft): Promise<Verdict> {
  try {
    await put(draft, true);
    return { faults: [], conflict: false, trouble: "" };
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === 0 || error.code === 401) throw error;
    const faults = error.causes.map((one) => ({ field: one.field ?? "", message: one.message ?? "" }));
    if (error.code === 422 && faults.length > 0) return { faults, conflict: false, trouble: "" };
    return { faults: [], conflict: error.code === 409, trouble: error.message };
  }
}
