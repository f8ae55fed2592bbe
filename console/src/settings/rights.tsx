/** The rights that a part of the settings takes, and the sentence that names a missing one. */

import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

/** Which of the named questions the hub answers with yes; undefined until it has answered. */
export function useRights<K extends string>(
  part: string,
  questions: Record<K, () => Promise<boolean>>,
): Record<K, boolean> | undefined {
  const query = useQuery({
    queryKey: ["rights", "settings", part],
    queryFn: async () => {
      const names = Object.keys(questions) as K[];
      const answers = await Promise.all(names.map((name) => questions[name]()));
      return Object.fromEntries(names.map((name, index) => [name, answers[index]])) as Record<K, boolean>;
    },
    staleTime: 60_000,
  });
  return query.data;
}

export function Missing({ right, children }: { right: string; children: ReactNode }) {
  return (
    <p className="note missing">
      {children} The right <code>{right}</code> is missing; an administrator of the hub can give it to you.
    </p>
  );
}
