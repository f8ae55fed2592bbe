/** The buttons of a job. A button shows only where the hub says that the user may do what it does. */

import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import { allowed, type JobDetail, patch, write } from "./api";

const HOLD = "fleet.io/hold";
const OVER = ["Succeeded", "Failed", "Deleting", "Deleted"];
const WAITS = ["Queued", "BackOff", "Held"];

interface Unit {
  spec?: { active?: boolean };
}

/** The group and plural of the kind of a job, out of the path of the object. */
function resourceOf(path: string): { group: string; resource: string } {
  const [, , group = "", , , , resource = ""] = path.split("/");
  return { group, resource };
}

const unitPath = (job: JobDetail) =>
  `/apis/scheduling.x-k8s.io/v1alpha1/namespaces/${encodeURIComponent(job.namespace)}/queueunits/${encodeURIComponent(`${job.name}-${job.kind}`.toLowerCase())}-rb-qu`;

async function rights(job: JobDetail) {
  const { namespace, name } = job;
  const kind = { ...resourceOf(job.object), namespace, name };
  const [change, remove, order] = await Promise.all([
    allowed({ ...kind, verb: "patch" }),
    allowed({ ...kind, verb: "delete" }),
    allowed({ verb: "patch", group: "scheduling.x-k8s.io", resource: "queueunits", namespace }),
  ]);
  return { change, remove, order };
}

async function release(job: JobDetail, order: boolean): Promise<void> {
  await patch(job.object, { metadata: { annotations: { [HOLD]: null } } });
  // A unit may be held by itself, by somebody who may order the queue.
  if (!order || job.state !== "Held") return;
  const unit = (await patch(unitPath(job), {})) as Unit;
  if (unit.spec?.active === false) await patch(unitPath(job), { spec: { active: true } });
}

export function Buttons({ job }: { job: JobDetail }) {
  const client = useQueryClient();
  const may = useQuery({ queryKey: ["rights", job.object], queryFn: () => rights(job), staleTime: 60_000 });
  const [priority, setPriority] = useState("");
  const dialog = useRef<HTMLDialogElement>(null);
  const act = useMutation({
    mutationFn: (what: () => Promise<unknown>) => what(),
    onSettled: () => client.invalidateQueries({ queryKey: ["jobs"] }),
  });
  // The space stays, so that nothing jumps when the hub has answered.
  if (!may.data || OVER.includes(job.state)) return <div className="buttons" />;
  const { change, remove, order } = may.data;
  const held = job.state === "Held";
  const hold = () => patch(job.object, { metadata: { annotations: { [HOLD]: "true" } } });
  const cancel = () =>
    write("DELETE", job.object, { preconditions: { uid: job.uid }, propagationPolicy: "Background" });
  const setTo = (event: FormEvent) => {
    event.preventDefault();
    act.mutate(() => patch(unitPath(job), { spec: { priority: Number(priority) } }));
  };
  return (
    <div className="buttons" data-asked="yes">
      {change && !held && (
        <Button variant="default" disabled={act.isPending} onClick={() => act.mutate(hold)}>
          Hold
        </Button>
      )}
      {change && held && (
        <Button variant="default" disabled={act.isPending} onClick={() => act.mutate(() => release(job, order))}>
          Release
        </Button>
      )}
      {order && WAITS.includes(job.state) && (
        <form onSubmit={setTo}>
          <TextInput
            aria-label="New priority"
            type="number"
            placeholder={String(job.priority ?? 0)}
            value={priority}
            onChange={(event) => setPriority(event.currentTarget.value)}
            required
          />
          <Button type="submit" variant="default" disabled={act.isPending}>
            Set priority
          </Button>
        </form>
      )}
      {remove && (
        <Button
          variant="default"
          className="danger"
          disabled={act.isPending}
          onClick={() => dialog.current?.showModal()}
        >
          Cancel the job
        </Button>
      )}
      <dialog ref={dialog} aria-labelledby="sure">
        <h2 id="sure">Cancel {job.name}?</h2>
        <p>The job stops in its member, and the hub deletes it. Nobody can take that back.</p>
        <form method="dialog" className="buttons">
          <Button type="submit" variant="default">
            Keep it
          </Button>
          <Button type="submit" className="danger" variant="default" onClick={() => act.mutate(cancel)}>
            Cancel the job
          </Button>
        </form>
      </dialog>
      {act.error && (
        <p className="bad-text" role="alert">
          {act.error.message}
        </p>
      )}
    </div>
  );
}
