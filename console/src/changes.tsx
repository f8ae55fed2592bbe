/** The changes of the last hour: jobs that started and ended, and members that became ready or not ready. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { count } from "./amounts";
import { type Changes, type Cluster, found, jobPath } from "./api";
import { Empty, Loaded } from "./shown";
import { Ago, useNow } from "./times";

const HOUR_MS = 3_600_000;
const SHOWN = 12;
const TONES: Record<string, string> = { Started: "good", Succeeded: "good", Failed: "bad", Evicted: "held" };

export function LastHour({ members }: { members: Cluster[] }) {
  const now = useNow(60_000);
  const jobs = useQuery({
    queryKey: ["jobs", "changes"],
    queryFn: () => found<Changes>(`/fleet/v1/reports/changes?limit=${SHOWN}`),
  });
  const turned = members.filter((one) => one.readySince && now - Date.parse(one.readySince) < HOUR_MS);
  return (
    <section aria-labelledby="changes">
      <h2 id="changes">The last hour</h2>
      <Loaded query={jobs} height={160}>
        {(data) =>
          (data?.items ?? []).length === 0 && turned.length === 0 ? (
            <Empty title="Nothing has changed">Jobs that start and end show here, and members that come and go.</Empty>
          ) : (
            <>
              {data && (
                <p>
                  {Object.entries(data.counts)
                    .map(([what, number]) => `${number.toLocaleString()} ${what.toLowerCase()}`)
                    .join(", ")}
                </p>
              )}
              <ul className="lately">
                {turned.map((one) => (
                  <li key={one.name}>
                    <span className={`state ${one.ready ? "good" : "bad"}`}>{one.ready ? "Ready" : "Not ready"}</span>
                    <Link to="/members">{one.name}</Link>
                    <span>
                      member, <Ago at={one.readySince} />
                    </span>
                  </li>
                ))}
                {data?.items.map((one) => (
                  <li key={`${jobPath(one)}${one.what}${one.at}`}>
                    <span className={`state ${TONES[one.what] ?? "waits"}`}>{one.what}</span>
                    <Link to={`/jobs/${jobPath(one)}`}>
                      {one.namespace}/{one.name}
                    </Link>
                    <span>
                      {count(one.gpus, "GPU")} in {one.member}, <Ago at={one.at} />
                    </span>
                  </li>
                ))}
              </ul>
            </>
          )
        }
      </Loaded>
    </section>
  );
}
