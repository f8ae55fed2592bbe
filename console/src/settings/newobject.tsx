/** A form for a new object: its namespace and its text, which the hub checks before it stores it. */

import { Button, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { write } from "../api";

interface Props {
  /** What it makes: policy, receiver. */
  word: string;
  template: string;
  /** The path of a namespace's objects, with `{}` for its name. */
  path: string;
  /** What the page asks again afterwards. */
  queryKey: string[];
}

export function NewObject({ word, template, path, queryKey }: Props) {
  const client = useQueryClient();
  const [open, setOpen] = useState(false);
  const [namespace, setNamespace] = useState("default");
  const [text, setText] = useState(template);
  const store = (dry: boolean) => {
    const to = path.replace("{}", encodeURIComponent(namespace.trim()));
    return write("POST", `${to}?fieldValidation=Strict${dry ? "&dryRun=All" : ""}`, text, "application/yaml");
  };
  const check = useMutation({ mutationFn: () => store(true) });
  const create = useMutation({
    mutationFn: () => store(false),
    onSuccess: () => {
      setOpen(false);
      setText(template);
      check.reset();
      return client.invalidateQueries({ queryKey });
    },
  });
  const typed = (put: (value: string) => void) => (value: string) => {
    put(value);
    check.reset();
    create.reset();
  };
  if (!open)
    return (
      <p>
        <Button variant="default" onClick={() => setOpen(true)}>
          New {word}
        </Button>
      </p>
    );
  const trouble = check.error ?? create.error;
  return (
    <section className="card" aria-label={`New ${word}`}>
      <h3>New {word}</h3>
      <TextInput
        label="Namespace"
        value={namespace}
        required
        onChange={(event) => typed(setNamespace)(event.currentTarget.value)}
      />
      <Textarea
        className="code"
        label={`The ${word}, as YAML or JSON`}
        rows={20}
        spellCheck={false}
        value={text}
        onChange={(event) => typed(setText)(event.currentTarget.value)}
      />
      <div className="buttons">
        <Button variant="default" onClick={() => setOpen(false)}>
          Leave it
        </Button>
        <Button variant="default" disabled={check.isPending || !namespace.trim()} onClick={() => check.mutate()}>
          Check
        </Button>
        <Button disabled={!check.isSuccess || create.isPending} onClick={() => create.mutate()}>
          Create
        </Button>
      </div>
      <p role="status">{check.isSuccess ? `The hub would take the ${word}.` : ""}</p>
      {trouble && (
        <p className="bad-text" role="alert">
          {trouble.message}
        </p>
      )}
    </section>
  );
}
