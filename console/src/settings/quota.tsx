/** The editor of the quota tree: a draft as outline or as text, checked by the hub, and what it would change. */

import { Alert, Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { allowed, get } from "../api";
import { TREES } from "../leaves";
import { Empty, Loaded } from "../shown";
import { type Answer, Consequences, consequences } from "./consequences";
import { checked, type Draft, put, treeOf, useDraft, useUser } from "./draft";
import { Outline } from "./outline";
import { Missing, useRights } from "./rights";
import { TreeText } from "./text";
import { differences, EMPTY, faultsOf, merged, type Node, ROOT, type Tree } from "./tree";

const TYPED_MS = 400;
const QUOTA = { group: "scheduling.sigs.k8s.io", resource: "elasticquotatrees", namespace: "kube-system" };

export function QuotaPart() {
  const may = useRights("quota", {
    list: () => allowed({ ...QUOTA, verb: "list" }),
    update: () => allowed({ ...QUOTA, verb: "update" }),
    create: () => allowed({ ...QUOTA, verb: "create" }),
  });
  const trees = useQuery({
    queryKey: ["queues", "tree"],
    queryFn: () => get<{ items: Tree[] }>(TREES),
    enabled: may?.list ?? false,
  });
  const [begun, setBegun] = useState(false);
  if (may && !may.list)
    return <Missing right="list elasticquotatrees in kube-system">The quota tree is not yours to see.</Missing>;
  return (
    <Loaded query={trees} height={300}>
      {({ items: [tree] }) =>
        tree || begun ? (
          <Editor tree={tree ?? EMPTY} may={tree ? (may?.update ?? false) : (may?.create ?? false)} />
        ) : (
          <Empty title="There is no quota tree">
            Jobs start without one as long as there is room.{" "}
            {may?.create && (
              <Button variant="default" onClick={() => setBegun(true)}>
                Begin a tree
              </Button>
            )}
          </Empty>
        )
      }
    </Loaded>
  );
}

/** The draft as it was when nobody has typed for a moment. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), TYPED_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

function Editor({ tree, may }: { tree: Tree; may: boolean }) {
  const client = useQueryClient();
  const user = useUser();
  const [begun, setDraft] = useDraft();
  const [asText, setAsText] = useState(false);
  const [round, setRound] = useState(0); // a new round shows the fields of another tree
  const [answer, setAnswer] = useState<{ of: string; answer: Answer } | null>(null);
  const draft: Draft = begun ?? { user, base: tree, root: tree.spec.root };
  const text = JSON.stringify(draft.root);
  const changes = differences(draft.base.spec.root, draft.root);
  const local = faultsOf(draft.root);
  const conflict = tree.metadata.resourceVersion !== draft.base.metadata.resourceVersion;
  const settled = useSettled(text);
  const ready = begun !== null && changes.length > 0 && local.length === 0 && !conflict;
  const hub = useQuery({
    queryKey: ["draft", draft.base.metadata.resourceVersion, text],
    queryFn: () => checked(draft),
    enabled: ready && settled === text && may,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  const faults = local.length > 0 ? local : (hub.data?.faults ?? []);
  const good = ready && hub.data !== undefined && faults.length === 0 && !hub.data.trouble;
  const ask = useMutation({
    mutationFn: () => consequences(draft.base, treeOf(draft)),
    onSuccess: (found) => setAnswer({ of: text, answer: found }),
  });
  const again = () => client.invalidateQueries({ queryKey: ["queues"] });
  const apply = useMutation({
    mutationFn: () => put(draft, false),
    onSuccess: (stored) => {
      client.setQueryData(["queues", "tree"], { items: [stored] });
      setDraft(null);
    },
    onSettled: again,
  });
  const change = (root: Node) => {
    apply.reset();
    setDraft({ base: draft.base, root });
  };
  const start = (next: { base: Tree; root: Node } | null) => {
    setDraft(next);
    setRound(round + 1);
    apply.reset();
  };
  const trouble = apply.error?.message ?? hub.error?.message ?? hub.data?.trouble ?? "";
  return (
    <>
      {!may && <Missing right="update elasticquotatrees in kube-system">You see the tree, and cannot edit it.</Missing>}
      {conflict && <Conflict draft={draft} tree={tree} start={start} />}
      <div className="buttons">
        <Button variant="default" size="xs" aria-pressed={asText} onClick={() => setAsText(!asText)}>
          {asText ? "Show as outline" : "Show as text"}
        </Button>
      </div>
      {asText ? (
        <TreeText key={`text-${round}`} tree={treeOf(draft)} faults={faults} fixed={!may} change={change} />
      ) : (
        <ul className="tree" key={`outline-${round}-${draft.base.metadata.resourceVersion}`}>
          <Outline node={draft.root} path={draft.root.name} field={ROOT} faults={faults} fixed={!may} change={change} />
        </ul>
      )}
      {may && (
        <>
          <p role="status">{said(changes.length, faults.length, good, conflict, trouble)}</p>
          <ul className="changes">
            {changes.slice(0, 100).map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
          <div className="buttons">
            <Button disabled={!good || ask.isPending} loading={ask.isPending} onClick={() => ask.mutate()}>
              What would change
            </Button>
            <Button variant="default" disabled={!good || apply.isPending} onClick={() => apply.mutate()}>
              Apply
            </Button>
            <Button variant="default" disabled={begun === null} onClick={() => start(null)}>
              Discard the draft
            </Button>
          </div>
        </>
      )}
      {(trouble || ask.error) && (
        <p className="bad-text" role="alert">
          {trouble || `What would change is not known: ${ask.error?.message}`}
        </p>
      )}
      {answer?.of === text && <Consequences answer={answer.answer} />}
      {apply.isSuccess && <p role="status">The hub has the new tree.</p>}
    </>
  );
}

function said(changes: number, faults: number, good: boolean, conflict: boolean, trouble: string): string {
  if (changes === 0) return "The draft is the tree of the hub.";
  if (faults > 0) return "The hub would refuse the draft. Mend the marked fields.";
  if (conflict) return "The draft waits for your choice above.";
  if (trouble) return "The hub would refuse the draft.";
  return good ? "The hub would take the draft." : "The hub checks the draft …";
}

interface ConflictProps {
  draft: Draft;
  tree: Tree;
  start: (draft: { base: Tree; root: Node } | null) => void;
}

/** Somebody has changed the tree since the draft began: who, when, what, and two ways on. */
function Conflict({ draft, tree, start }: ConflictProps) {
  const last = [...(tree.metadata.managedFields ?? [])].sort((a, b) => (b.time ?? "").localeCompare(a.time ?? ""))[0];
  const theirs = differences(draft.base.spec.root, tree.spec.root);
  const root = () => merged(draft.base.spec.root, draft.root, tree.spec.root);
  return (
    <Alert role="alert" className="trouble" title="The tree on the hub has changed since your draft began">
      <p>
        Changed by {last?.manager ?? "an unknown program"}
        {last?.time && ` at ${new Date(last.time).toLocaleString()}`}. Your draft is kept.
      </p>
      <ul>
        {theirs.slice(0, 50).map((one) => (
          <li key={one}>{one}</li>
        ))}
        {theirs.length === 0 && <li>No queue and no limit is different.</li>}
      </ul>
      <div className="buttons">
        <Button variant="default" size="xs" onClick={() => start({ base: tree, root: root() })}>
          Put my changes on top
        </Button>
        <Button variant="default" size="xs" onClick={() => start(null)}>
          Discard the draft
        </Button>
      </div>
    </Alert>
  );
}
