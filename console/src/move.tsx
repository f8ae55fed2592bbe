/** A job to another member: `fleet move` in a dialog. */

import { Button, NativeSelect } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useId, useRef, useState } from "react";
import { type ClusterList, found, type JobDetail, write } from "./api";
import { cordoned } from "./cordon";
import { type Body, read } from "./manifest";
import { move } from "./verbs";

const PREEMPTIBLE = ["quota.scheduling.alibabacloud.com/preemptible", "quota.scheduling.koordinator.sh/preemptible"];

interface Room {
  members: { name: string; fits: boolean; reason: { text: string } | null }[];
}

/** The job's own manifest, checked under a name that is free: which members have room for it now. */
async function room(body: Body): Promise<Room> {
  const metadata = { ...(body.metadata as Body), name: `move-${crypto.randomUUID().slice(0, 8)}` };
  return write<Room>("POST", "/fleet/v1/check", { ...body, metadata });
}

export function Move({ job, create }: { job: JobDetail; create: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <>
      <Button
        variant="default"
        onClick={() => {
          setOpen(true);
          dialog.current?.showModal();
        }}
      >
        Move
      </Button>
      <dialog ref={dialog} aria-labelledby={id} onClose={() => setOpen(false)}>
        <h2 id={id}>Move {job.name}</h2>
        {open && <Fields job={job} create={create} close={() => dialog.current?.close()} />}
      </dialog>
    </>
  );
}

function Fields({ job, create, close }: { job: JobDetail; create: boolean; close: () => void }) {
  const client = useQueryClient();
  const members = useQuery({ queryKey: ["members", "room"], queryFn: () => found<ClusterList>("/fleet/v1/clusters") });
  const body = useQuery({ queryKey: ["jobs", "move", job.uid], queryFn: () => read(job.object) });
  const rooms = useQuery({
    queryKey: ["room", job.uid],
    queryFn: () => room(body.data ?? {}),
    enabled: create && body.data !== undefined,
    gcTime: 0,
    retry: false,
  });
  const [chosen, setChosen] = useState("");
  const names = (members.data?.items ?? []).filter((one) => one.name !== job.member).map((one) => one.name);
  const to = chosen || names[0] || "";
  const space = rooms.data?.members.find((one) => one.name === to);
  const closed = members.data?.items.find((one) => one.name === to && (cordoned(one) || !one.ready));
  const labels = ((body.data?.metadata as Body | undefined)?.labels ?? {}) as Record<string, string>;
  const stays = PREEMPTIBLE.some((label) => labels[label]?.toLowerCase() === "false");
  const act = useMutation({
    mutationFn: () => move(job, to),
    onSuccess: close,
    onSettled: () => client.invalidateQueries({ queryKey: ["jobs"] }),
  });
  if (members.data === null || (members.data && names.length === 0))
    return (
      <>
        <p>
          {members.data === null
            ? "You may not see the members. Name one with fleet move --to MEMBER."
            : "There is no other member."}
        </p>
        <Button variant="default" onClick={close}>
          Leave it
        </Button>
      </>
    );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    act.mutate();
  };
  return (
    <form className="fields" onSubmit={submit}>
      <NativeSelect
        label="To member"
        value={to}
        data={names}
        onChange={(event) => setChosen(event.currentTarget.value)}
      />
      <p>
        {job.member === null
          ? `The job starts in ${to} and nowhere else, and waits until ${to} has room.`
          : `The job stops in ${job.member}, loses what it has not saved, and starts again in ${to}. It queues with its old place, and waits until ${to} has room.`}
      </p>
      <p role="status">
        {rooms.isFetching && "The hub looks which members have room …"}
        {space?.fits && `${to} has room for it now.`}
        {space && !space.fits && `${to} has no room for it now: ${space.reason?.text ?? "it does not fit"}`}
        {rooms.error && `Nobody can tell which members have room: ${rooms.error.message}`}
      </p>
      {closed && <p className="bad-text">{to} takes no new jobs now: it is cordoned or not ready.</p>}
      {stays && <p className="bad-text">The job says that it is not preemptible. The move stops it all the same.</p>}
      {act.error && (
        <p className="bad-text" role="alert">
          {act.error.message}
        </p>
      )}
      <div className="buttons">
        <Button variant="default" onClick={close}>
          Leave it
        </Button>
        <Button type="submit" className="danger" variant="default" disabled={!to || act.isPending}>
          Move it
        </Button>
      </div>
    </form>
  );
}
