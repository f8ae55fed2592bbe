/** The log of a pod as it grows. It is shown as text, whatever a job prints. */

import { NativeSelect } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { send } from "./api";
import { Empty } from "./shown";
import type { GpuFigures } from "./use";

export interface PodList {
  items: {
    name: string;
    member: string;
    role: string;
    rank: number;
    phase: string;
    node: string;
    requests: Record<string, string>;
  }[];
}

/** null: the member does not tell it. */
export interface PodUse {
  name: string;
  member: string;
  usage: Record<string, string> | null;
  gpu?: GpuFigures | null;
}

const KEPT = 200_000; // characters; a page with more gets slow
const TAIL = 1_000;

async function follow(path: string, signal: AbortSignal, add: (text: string) => void): Promise<void> {
  const { body } = await send(path, { signal });
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) return;
    add(value);
  }
}

export function Logs({ namespace, pods }: { namespace: string; pods: PodList["items"] }) {
  const [chosen, setChosen] = useState("");
  // The hub knows the pod of a member by a name that has the member's behind it.
  const names = pods.map((pod) => `${pod.name}.${pod.member}`);
  const name = names.includes(chosen) ? chosen : (names[0] ?? "");
  if (!name) return <Empty title="No log yet">A log begins when a pod of the job runs.</Empty>;
  return (
    <>
      <NativeSelect label="Pod" value={name} data={names} onChange={(event) => setChosen(event.currentTarget.value)} />
      <Log
        key={name}
        path={`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/log`}
      />
    </>
  );
}

function Log({ path }: { path: string }) {
  const [text, setText] = useState("");
  const [end, setEnd] = useState("");
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const abort = new AbortController();
    follow(`${path}?follow=true&tailLines=${TAIL}`, abort.signal, (more) =>
      setText((before) => (before + more).slice(-KEPT)),
    )
      .then(() => setEnd("The log ends here."))
      .catch((error) => {
        if (!abort.signal.aborted) setEnd(error.message);
      });
    return () => abort.abort();
  }, [path]);
  // A reader who has scrolled up stays there.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the text is what makes it longer
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <>
      <pre
        ref={box}
        tabIndex={0}
        onScroll={({ currentTarget: at }) => {
          atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
        }}
      >
        {text || (end ? "" : "Waiting for the log …")}
      </pre>
      <p className="note" role="status">
        {end}
      </p>
    </>
  );
}
