/** What the user may do, as the hub itself says. */

import { useQuery } from "@tanstack/react-query";
import { allowed, allowedPath, type JobDetail } from "./api";

/** The group and plural of the kind of a job, out of the path of the object. */
function resourceOf(path: string): { group: string; resource: string } {
  const [, , group = "", , , , resource = ""] = path.split("/");
  return { group, resource };
}

async function rights(job: JobDetail) {
  const { namespace, name } = job;
  const kind = { ...resourceOf(job.object), namespace };
  const [change, remove, order, create] = await Promise.all([
    allowed({ ...kind, name, verb: "patch" }),
    allowed({ ...kind, name, verb: "delete" }),
    allowed({ verb: "patch", group: "scheduling.x-k8s.io", resource: "queueunits", namespace }),
    allowed({ ...kind, verb: "create" }),
  ]);
  return { change, remove, order, create };
}

/** Whether she may change and delete the job, order its queue, and create another one beside it. */
export function useRights(job: JobDetail) {
  return useQuery({ queryKey: ["rights", job.object], queryFn: () => rights(job), staleTime: 60_000 });
}

/** Whether she may ask what-if about all of the fleet. */
export function useMayAsk() {
  return useQuery({
    queryKey: ["rights", "what-if"],
    queryFn: () => allowedPath("post", "/fleet/v1/what-if"),
    staleTime: 60_000,
  });
}
