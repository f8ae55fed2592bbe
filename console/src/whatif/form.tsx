/** The form that adds one edit to the question. */

import { Button, NativeSelect, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useId, useState } from "react";
import { type ClusterList, found, type JobList, type QueueList } from "../api";
import type { Edit } from "../edits";
import { TREES } from "../leaves";
import { useMayAsk } from "../rights";
import { manifestOf } from "../settings/text";
import type { Tree } from "../settings/tree";
import { type Choices, type Field, FORMS } from "./forms";

const JOBS_MOST = 500;

/** What the fields are chosen from, as far as the user may see it. */
function useChoices(kind: string): Record<Choices, string[]> {
  const queues = useQuery({ queryKey: ["queues", "choices"], queryFn: () => found<QueueList>("/fleet/v1/queues") });
  const members = useQuery({ queryKey: ["members", "room"], queryFn: () => found<ClusterList>("/fleet/v1/clusters") });
  const jobs = useQuery({
    queryKey: ["jobs", "choices"],
    queryFn: () => found<JobList>(`/fleet/v1/jobs?limit=${JOBS_MOST}`),
  });
  const trees = useQuery({
    queryKey: ["queues", "tree-choice"],
    queryFn: () => found<{ items: Tree[] }>(TREES),
    enabled: kind === "tree",
  });
  const nodes = queues.data?.items ?? [];
  return {
    queue: nodes.map((one) => one.path),
    leaf: nodes.filter((one) => one.children.length === 0).map((one) => one.path),
    resource: [
      ...new Set(["nvidia.com/gpu", ...nodes.flatMap((one) => Object.keys({ ...one.max, ...one.min, ...one.used }))]),
    ],
    member: (members.data?.items ?? []).map((one) => one.name),
    tree: (trees.data?.items ?? []).map(manifestOf),
    job: (jobs.data?.items ?? []).map((one) => `${one.namespace}/${one.name}`),
  };
}

export function AddEdit({ add }: { add: (edit: Edit) => void }) {
  const may = useMayAsk();
  const [kind, setKind] = useState("limit");
  const choices = useChoices(kind);
  const [given, setGiven] = useState<Record<string, string>>({});
  const [wrong, setWrong] = useState("");
  const form = FORMS[kind];
  if (form === undefined) return null;
  const kinds = Object.entries(FORMS).filter(([, one]) => may.data || !one.whole);
  const values = Object.fromEntries(form.fields.map((field) => [field.name, current(field, given, choices)]));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    try {
      add(form.make(values));
      setWrong("");
    } catch (error) {
      setWrong((error as Error).message);
    }
  };
  const choose = (next: string) => {
    setKind(next);
    setGiven({});
    setWrong("");
  };
  return (
    <form className="filters" onSubmit={submit} aria-label="Add an edit">
      <NativeSelect
        label="What changes"
        value={kind}
        data={kinds.map(([value, one]) => ({ value, label: one.label }))}
        onChange={(event) => choose(event.currentTarget.value)}
      />
      {form.fields.map((field) => (
        <Input
          key={`${kind}-${field.name}`}
          field={field}
          choices={choices}
          value={values[field.name] ?? ""}
          set={(value) => setGiven((old) => ({ ...old, [field.name]: value }))}
        />
      ))}
      <Button type="submit" variant="default">
        Add
      </Button>
      {wrong && (
        <p className="bad-text" role="alert">
          {wrong}
        </p>
      )}
      {may.data === false && (
        <p className="note">
          Members are left out: an administrator of the hub can give you the right to ask about all of the fleet.
        </p>
      )}
    </form>
  );
}

const chosen = (field: Field): field is Field & { from: Exclude<Choices, "job"> } =>
  field.from !== undefined && field.from !== "job";

function current(field: Field, given: Record<string, string>, choices: Record<Choices, string[]>): string {
  const first = field.options?.[0] ?? (chosen(field) && !field.optional ? choices[field.from][0] : undefined);
  return given[field.name] ?? field.value ?? first ?? "";
}

function Input(props: {
  field: Field;
  choices: Record<Choices, string[]>;
  value: string;
  set: (value: string) => void;
}) {
  const { field, choices, value, set } = props;
  const list = useId();
  const label = field.note ? `${field.label} (${field.note})` : field.label;
  if (field.text)
    return (
      <Textarea
        className="code"
        label={label}
        rows={16}
        spellCheck={false}
        value={value}
        required
        onChange={(event) => set(event.currentTarget.value)}
      />
    );
  if (field.options || (chosen(field) && choices[field.from].length > 0)) {
    const options = field.options ?? (chosen(field) ? choices[field.from] : []);
    return (
      <NativeSelect
        label={field.label}
        value={value}
        data={field.optional ? ["", ...options] : options}
        onChange={(event) => set(event.currentTarget.value)}
      />
    );
  }
  return (
    <>
      <TextInput
        label={label}
        type={field.number ? "number" : "text"}
        step={1}
        value={value}
        required={!field.optional}
        list={field.from ? list : undefined}
        onChange={(event) => set(event.currentTarget.value)}
      />
      {field.from && (
        <datalist id={list}>
          {choices[field.from].map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </>
  );
}
