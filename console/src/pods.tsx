/** The pods of a job: where they are, what they ask for and what they use. */

import { useQuery } from "@tanstack/react-query";
import { found } from "./api";
import type { PodList, PodUse } from "./logs";
import { Empty, State } from "./shown";
import { podUse, USE_MS } from "./use";

/** `silent`, `silentGpus`: by member, why figures are missing. */
interface UseList {
  items: PodUse[];
  silent: Record<string, string>;
  silentGpus?: Record<string, string>;
}

/** `object`: the path of the job. */
export function Pods({ object, pods }: { object: string; pods: PodList | null }) {
  // Each question asks the member, so a change of some other job is no reason for one.
  const use = useQuery({
    queryKey: ["use", "pods", object],
    queryFn: () => found<UseList>(`${object}/pods?usage=true`),
    refetchInterval: USE_MS,
  });
  if (pods === null || pods.items.length === 0)
    return <Empty title="No pods">The job has none now, or you may not see them.</Empty>;
  const told = new Map(use.data?.items.map((one) => [`${one.member}/${one.name}`, podUse(one)]));
  const silent = [...Object.entries(use.data?.silent ?? {}), ...Object.entries(use.data?.silentGpus ?? {})];
  return (
    <>
      <section className="wide" tabIndex={0} aria-label="Pods">
        <table>
          <thead>
            <tr>
              {["Rank", "Pod", "Role", "Phase", "Member", "Node", "Requests", "Uses"].map((one) => (
                <th key={one} scope="col">
                  {one}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {pods.items.map((pod) => (
              <tr key={`${pod.member}/${pod.name}`}>
                <td>{pod.rank}</td>
                <td>{pod.name}</td>
                <td>{pod.role}</td>
                <td>
                  <State state={pod.phase} />
                </td>
                <td>{pod.member}</td>
                <td>{pod.node || "–"}</td>
                <td>
                  {Object.entries(pod.requests)
                    .map(([resource, value]) => `${resource} ${value}`)
                    .join(", ")}
                </td>
                <td>{told.get(`${pod.member}/${pod.name}`) || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {silent.map(([member, why]) => (
        <p key={member + why} className="note">
          {member} {why}
        </p>
      ))}
    </>
  );
}
