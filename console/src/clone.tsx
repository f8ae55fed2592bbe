/** The same job once more, with another name and changes: `fleet clone` in a dialog. */

import { Button, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useId, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { found, type JobDetail, jobPath, type QueueList, write } from "./api";
import { at, type Body, gpusOf, hasCode, put, read, rolesOf, set, setGpus } from "./manifest";
import { Loaded } from "./shown";

const QUEUE = "quota.scheduling.alibabacloud.com/name";
const NAME_MOST = 60;

export function Clone({ job }: { job: JobDetail }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  const id = useId();
  const manifest = useQuery({ queryKey: ["jobs", "clone", job.uid], queryFn: () => read(job.object), enabled: open });
  const show = () => {
    setOpen(true);
    dialog.current?.showModal();
  };
  return (
    <>
      <Button variant="default" onClick={show}>
        Clone
      </Button>
      <dialog ref={dialog} aria-labelledby={id} onClose={() => setOpen(false)}>
        <h2 id={id}>Clone {job.name}</h2>
        {open && (
          <Loaded query={manifest}>
            {(body) => <Fields job={job} body={body} close={() => dialog.current?.close()} />}
          </Loaded>
        )}
      </dialog>
    </>
  );
}

function Fields({ job, body, close }: { job: JobDetail; body: Body; close: () => void }) {
  const goTo = useNavigate();
  const queues = useQuery({ queryKey: ["queues", "choices"], queryFn: () => found<QueueList>("/fleet/v1/queues") });
  const [name, setName] = useState(`${job.name.slice(0, NAME_MOST)}-2`);
  const [queue, setQueue] = useState("");
  const [changes, setChanges] = useState("");
  const [given, setGiven] = useState<Record<string, string>>({});
  const roles = rolesOf(body);
  const leaves = (queues.data?.items ?? []).filter((one) => one.children.length === 0).map((one) => one.path);
  const create = useMutation({
    mutationFn: () => {
      const made = structuredClone(body);
      const metadata = made.metadata as Body;
      metadata.name = name;
      if (queue) metadata.labels = { ...(metadata.labels as Body | undefined), [QUEUE]: queue.split("/").at(-1) };
      for (const role of roles) {
        const replicas = given[`${role.name} replicas`];
        const gpus = given[`${role.name} gpus`];
        if (replicas) set(made, role.replicas, Number(replicas));
        if (replicas && made.kind === "Job") set(made, ["spec", "completions"], Number(replicas));
        if (gpus) setGpus(made, role, gpus);
      }
      for (const line of changes.split("\n")) if (line.trim()) put(made, line.trim());
      // The hub leaves out what servers have filled in.
      return write<JobDetail>("POST", "/fleet/v1/jobs", made);
    },
    onSuccess: (made) => {
      close();
      void goTo(`/jobs/${jobPath(made)}`);
    },
  });
  if (hasCode(body))
    return (
      <Told close={close}>
        The job has code that <code>fleet run</code> sent along. Use <code>fleet clone {job.name}</code>, which copies
        the code, too.
      </Told>
    );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  const number = (key: string, label: string, value: unknown) => (
    <TextInput
      key={key}
      label={label}
      type="number"
      min={0}
      placeholder={String(value)}
      value={given[key] ?? String(value)}
      required
      onChange={(event) => {
        const { value: next } = event.currentTarget;
        setGiven((old) => ({ ...old, [key]: next }));
      }}
    />
  );
  return (
    <form className="fields" onSubmit={submit}>
      <TextInput label="Name" value={name} required onChange={(event) => setName(event.currentTarget.value)} />
      {roles.flatMap((role) => {
        const gpus = gpusOf(body, role);
        return [
          number(
            `${role.name} replicas`,
            `${role.name || "Pods"} ${role.name && "replicas"}`.trim(),
            at(body, role.replicas) ?? 1,
          ),
          ...(gpus === null ? [] : [number(`${role.name} gpus`, `GPUs of each ${role.name || "pod"}`, gpus)]),
        ];
      })}
      {leaves.length > 0 && (
        <NativeSelect
          label="Queue"
          value={queue}
          data={[{ value: "", label: "as in the manifest" }, ...leaves]}
          onChange={(event) => setQueue(event.currentTarget.value)}
        />
      )}
      <Textarea
        label="Other changes, one on a line (spec.a.b=VALUE)"
        value={changes}
        onChange={(event) => setChanges(event.currentTarget.value)}
      />
      {create.error && (
        <p className="bad-text" role="alert">
          {create.error.message}
        </p>
      )}
      <div className="buttons">
        <Button variant="default" onClick={close}>
          Leave it
        </Button>
        <Button type="submit" disabled={create.isPending}>
          Submit
        </Button>
      </div>
    </form>
  );
}

function Told({ close, children }: { close: () => void; children: React.ReactNode }) {
  return (
    <>
      <p>{children}</p>
      <Button variant="default" onClick={close}>
        Leave it
      </Button>
    </>
  );
}
