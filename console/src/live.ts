/** Live pages: the hub says which kinds have changed, and the queries of these kinds ask again. */

import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { get, Refusal } from "./api";

const ALL = ["jobs", "queues", "members", "decisions", "policies", "receivers"];
const AGAIN_MS = 3_000;

const missed = new Set<string>();

/** A page that nobody sees asks when it is seen again. */
function refresh(client: QueryClient, kinds: Iterable<string>): void {
  for (const kind of kinds) missed.add(kind);
  if (document.hidden) return;
  const now = new Set(missed);
  missed.clear();
  void client.invalidateQueries({ predicate: (query) => now.has(String(query.queryKey[0])) });
}

function kindsOf(data: string): string[] {
  try {
    return JSON.parse(data).kinds ?? ALL;
  } catch {
    return ALL;
  }
}

/** Whether changes arrive. The first element of each query key is the kind that the query shows. */
export function useChanges(): boolean {
  const client = useQueryClient();
  const [connected, setConnected] = useState(true);
  useEffect(() => {
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let wasLost = false;
    const connect = () => {
      source = new EventSource("/fleet/v1/changes");
      source.onopen = () => {
        setConnected(true);
        // Changes of the time without a connection are not known one by one.
        if (wasLost) {
          refresh(client, ALL);
        }
        wasLost = false;
      };
      source.addEventListener("changed", (event) => refresh(client, kindsOf(event.data)));
      source.onerror = () => {
        wasLost = true;
        // A browser gives up after an answer that is no stream, such as 502, and tries again by itself otherwise.
        if (source?.readyState === EventSource.CLOSED) timer = setTimeout(connect, AGAIN_MS);
        void get("/console/session").then(
          // The hub answers, but nothing streams, such as behind some proxies: the pages ask by themselves.
          () => refresh(client, ALL),
          (error) => {
            setConnected(false);
            if (error instanceof Refusal && error.code === 401)
              void client.invalidateQueries({ queryKey: ["session"] });
          },
        );
      };
    };
    connect();
    const seen = () => refresh(client, []);
    document.addEventListener("visibilitychange", seen);
    return () => {
      document.removeEventListener("visibilitychange", seen);
      source?.close();
      clearTimeout(timer);
    };
  }, [client]);
  return connected;
}
