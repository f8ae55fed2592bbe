/** Why a job waits, its estimated start, and the changes that start it: tried on the page What if, or made. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "react-router";
import { type Explanation, found, type JobDetail, jobPath } from "./api";
import { Confirm } from "./confirm";
import { addressOf, type Edit, named } from "./edits";
import { useRights } from "./rights";
import { Loaded } from "./shown";
import { At } from "./times";
import { prioritize, release, resize } from "./verbs";

type Change = Explanation["changes"][number];

export function Why({ job }: { job: JobDetail }) {
  const path = jobPath(job);
  const query = useQuery({
    queryKey: ["jobs", "why", path],
    queryFn: () => found<Explanation>(`/fleet/v1/jobs/${path}/explanation`),
    staleTime: 10_000,
  });
  return (
    <section aria-labelledby="why">
      <h2 id="why">What starts it</h2>
      <Loaded query={query} height={100}>
        {(data) =>
          data === null ? <p>The hub has not looked at it yet.</p> : <Reasons job={job} explanation={data} />
        }
      </Loaded>
    </section>
  );
}

function Reasons({ job, explanation }: { job: JobDetail; explanation: Explanation }) {
  const { estimate, changes, waitsFor, starts } = explanation;
  return (
    <>
      {starts && <p>The next decision starts it.</p>}
      {estimate.p50 ? (
        <p>
          Likely start: <At at={estimate.p50} />
          {estimate.p90 && (
            <>
              , in 9 of 10 cases before <At at={estimate.p90} />
            </>
          )}
          .
        </p>
      ) : (
        <p>No estimate of the start{estimate.why ? `: ${estimate.why}` : ""}.</p>
      )}
      {waitsFor && <p>It waits for {waitsFor.text}.</p>}
      {changes.length > 0 && <Starters job={job} unit={explanation.unit} changes={changes} />}
    </>
  );
}

interface Verb {
  label: string;
  says: string;
  act: () => Promise<unknown>;
}

function Starters({ job, unit, changes }: { job: JobDetail; unit: string; changes: Change[] }) {
  const client = useQueryClient();
  const may = useRights(job);
  const act = useMutation({
    mutationFn: (what: () => Promise<unknown>) => what(),
    onSettled: () => client.invalidateQueries({ queryKey: ["jobs"] }),
  });
  /** The change as an act of the user, where it is one and she may do it. */
  const verbOf = ({ edits }: Change): Verb | null => {
    const [name, fields] = Object.entries((edits as Edit[])[0] ?? {})[0] ?? [];
    if (!may.data || edits.length !== 1 || fields === undefined) return null;
    const { change, order } = may.data;
    if (name === "Prioritize" && order) {
      const priority = Number(fields.priority);
      const says = "Jobs of a lower priority wait longer, and may be evicted where their queue allows that.";
      return { label: `Give it priority ${priority}`, says, act: () => prioritize(job, priority) };
    }
    if (name === "Hold" && change && job.state === "Held")
      return { label: "Release it", says: "The job may start again.", act: () => release(job, order) };
    if (name === "Resize" && change && /^(PyTorch|TF|MPI|JAX|Paddle|XGBoost)Job$/.test(job.kind)) {
      const replicas = Number(fields.replicas);
      const component = String(fields.component);
      const says = "The manifest of the job changes: it runs with fewer pods until somebody changes it back.";
      return { label: `Use ${replicas} × ${component}`, says, act: () => resize(job, component, replicas) };
    }
    return null;
  };
  return (
    <>
      <p>Each of these changes starts it now:</p>
      <ul className="starters">
        {changes.map((one) => {
          const verb = verbOf(one);
          return (
            <li key={one.kind}>
              {one.text}{" "}
              {one.edits.length > 0 && (
                <Link to={addressOf(named(one.edits as Edit[], unit, `${job.namespace}/${job.name}`))}>Try it</Link>
              )}
              {verb && (
                <span className="buttons">
                  <Confirm
                    small
                    label={verb.label}
                    title={`${verb.label}?`}
                    act={() => act.mutate(verb.act)}
                    disabled={act.isPending}
                  >
                    <p>{verb.says}</p>
                  </Confirm>
                </span>
              )}
            </li>
          );
        })}
      </ul>
      {act.error && (
        <p className="bad-text" role="alert">
          {act.error.message}
        </p>
      )}
    </>
  );
}
