/** What would be otherwise: the edits stand in the address, so that a link leads to the same question. */

import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation, useNavigate } from "react-router";
import { Refusal, write } from "../api";
import { asHash, type Edit, fromHash, words } from "../edits";
import { Empty, Trouble } from "../shown";
import { useNow } from "../times";
import { Answer, type Comparison } from "../whatif/answer";
import { AddEdit } from "../whatif/form";

const MOST = 100; // edits of one question
const BUSY = 429;
const TRIES = 20; // while others ask
const EDITED = "edited"; // the state of an address that this page has made

export function WhatIfPage() {
  const { hash, state } = useLocation();
  const navigate = useNavigate();
  const { edits, broken } = fromHash(hash);
  const key = JSON.stringify(edits);
  // A link is asked at once; edits that a person adds wait for the button.
  const [asked, setAsked] = useState(key);
  useEffect(() => {
    if (state !== EDITED) setAsked(key);
  }, [state, key]);
  const query = useQuery({
    queryKey: ["what-if", key],
    queryFn: ({ signal }) => write<Comparison>("POST", "/fleet/v1/what-if", { edits }, "application/json", signal),
    enabled: asked === key && edits.length > 0,
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    retry: (failures, error) => error instanceof Refusal && error.code === BUSY && failures < TRIES,
    retryDelay: 1_000,
  });
  const put = (next: Edit[]) => navigate({ hash: asHash(next) }, { state: EDITED });
  const causes = query.error instanceof Refusal ? query.error.causes : [];
  const ask = () => {
    setAsked(key);
    if (asked === key) void query.refetch();
  };
  return (
    <>
      <h1>What if</h1>
      <p>Add edits, and ask who would start, who would wait, and when. Nothing is changed.</p>
      {broken > 0 && (
        <p className="bad-text" role="alert">
          {broken === 1 ? "One part" : `${broken} parts`} of the address cannot be read as an edit and{" "}
          {broken === 1 ? "is" : "are"} left out.
        </p>
      )}
      {edits.length === 0 ? (
        <Empty title="No edits yet">Choose below what changes: a limit, a job or a member.</Empty>
      ) : (
        <ol className="edits" aria-label="Edits">
          {edits.map((edit, index) => (
            // Two equal edits are two lines, so the number tells them apart.
            // biome-ignore lint/suspicious/noArrayIndexKey: lines have no name, and no state
            <li key={index}>
              <span>{words(edit)}</span>{" "}
              <Button
                size="compact-sm"
                variant="default"
                aria-label={`Remove edit ${index + 1}`}
                onClick={() => put(edits.toSpliced(index, 1))}
              >
                Remove
              </Button>
              {causes
                .filter(({ field }) => field?.startsWith(`edits[${index}]`))
                .map(({ field, message }) => (
                  <p key={field} className="bad-text" role="alert">
                    {field?.split(".").slice(2).join(".") || "edit"}: {message}
                  </p>
                ))}
            </li>
          ))}
        </ol>
      )}
      {edits.length < MOST && <AddEdit add={(edit) => put([...edits, edit])} />}
      <div className="buttons">
        <Button onClick={ask} disabled={edits.length === 0 || query.isFetching}>
          Ask
        </Button>
        {query.isFetching && (
          <Button variant="default" onClick={() => setAsked("")}>
            Stop asking
          </Button>
        )}
      </div>
      <section aria-label="Answer" aria-live="polite" aria-busy={query.isFetching}>
        {asked !== key || edits.length === 0 ? null : query.isFetching ? (
          <Progress />
        ) : query.error ? (
          causes.some(({ field }) => field?.startsWith("edits[")) ? (
            <p className="bad-text">
              The hub refuses the question: the edit says what is wrong. Remove it, and add it anew.
            </p>
          ) : (
            <Trouble error={query.error} again={() => void query.refetch()} />
          )
        ) : (
          query.data && (
            <>
              <h2>Answer</h2>
              <Answer found={query.data} edits={edits} />
            </>
          )
        )}
      </section>
    </>
  );
}

function Progress() {
  const [began] = useState(Date.now);
  const seconds = Math.max(0, Math.floor((useNow(1_000) - began) / 1_000));
  return (
    <p>
      The hub decides the fleet twice and runs both forward. That takes some ten seconds at most, longer while others
      ask. <span aria-hidden="true">{seconds} s</span>
    </p>
  );
}
