/** The buttons of a job. A button shows only where the hub says that the user may do what it does. */

import { Button, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import type { JobDetail } from "./api";
import { Clone } from "./clone";
import { Confirm } from "./confirm";
import { Move } from "./move";
import { useRights } from "./rights";
import { OVER } from "./shown";
import { cancel, hold, prioritize, release } from "./verbs";

const GOES = ["Deleting", "Deleted"];
const WAITS = ["Queued", "BackOff", "Held"];

export function Buttons({ job }: { job: JobDetail }) {
  const client = useQueryClient();
  const may = useRights(job);
  const [priority, setPriority] = useState("");
  const act = useMutation({
    mutationFn: (what: () => Promise<unknown>) => what(),
    onSettled: () => client.invalidateQueries({ queryKey: ["jobs"] }),
  });
  // The space stays, so that nothing jumps when the hub has answered.
  if (!may.data || GOES.includes(job.state)) return <div className="buttons" />;
  const { change, remove, order, create } = may.data;
  const over = OVER.includes(job.state);
  const held = job.state === "Held";
  const setTo = (event: FormEvent) => {
    event.preventDefault();
    act.mutate(() => prioritize(job, Number(priority)));
  };
  return (
    <div className="buttons" data-asked="yes">
      {change && !over && !held && (
        <Button variant="default" disabled={act.isPending} onClick={() => act.mutate(() => hold(job))}>
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
      {create && <Clone job={job} />}
      {change && !over && job.policy !== null && <Move job={job} create={create} />}
      {remove && !over && (
        <Confirm
          danger
          label="Cancel the job"
          title={`Cancel ${job.name}?`}
          no="Keep it"
          act={() => act.mutate(() => cancel(job))}
          disabled={act.isPending}
        >
          <p>The job stops in its member, and the hub deletes it. Nobody can take that back.</p>
        </Confirm>
      )}
      {act.error && (
        <p className="bad-text" role="alert">
          {act.error.message}
        </p>
      )}
    </div>
  );
}
