/** The leaves of the quota tree, as far as the user may read it. */

import { useQuery } from "@tanstack/react-query";
import { found } from "./api";
import type { Node, Tree } from "./settings/tree";

export const TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees";
const STALE_MS = 60_000;

function below(node: Node, above: string): string[] {
  const path = `${above}${node.name}`;
  return node.children?.length ? node.children.flatMap((one) => below(one, `${path}/`)) : [path];
}

/** Their paths, sorted; undefined until the tree is read, null for a user who may not read it. */
export function useLeaves(): string[] | null | undefined {
  // The key is no kind of changes: usage changes all the time, and the names of the queues hardly ever.
  const tree = useQuery({
    queryKey: ["leaves"],
    queryFn: () => found<{ items: Tree[] }>(TREES),
    select: (data) => data?.items.flatMap((one) => below(one.spec.root, "")).sort() ?? null,
    staleTime: STALE_MS,
  });
  return tree.isError ? null : tree.data;
}
