/** The draft of the quota tree as the text of its manifest. */

import { Textarea } from "@mantine/core";
import { useState } from "react";
import { asYaml, readYaml, type Text } from "../yaml";
import { type Fault, manifestFault, type Node, type Tree } from "./tree";

interface Props {
  tree: Tree;
  faults: Fault[]; // of the draft
  fixed: boolean;
  change: (root: Node) => void;
}

/** A text that cannot be read leaves the draft as it is. Of a text that can, `spec.root` becomes the draft. */
export function TreeText({ tree, faults, fixed, change }: Props) {
  const [text, setText] = useState(() => manifestOf(tree));
  const [read, setRead] = useState<Text>(() => readYaml(text));
  const [fault, setFault] = useState("");
  const said = (one: Fault, of: Text) => `line ${of.lineOf(one.field)}: ${one.field}${one.field && ": "}${one.message}`;
  const type = (next: string) => {
    setText(next);
    try {
      const found = readYaml(next);
      const wrong = manifestFault(found.value, tree);
      setFault(wrong ? said(wrong, found) : "");
      if (wrong) return;
      setRead(found);
      change((found.value as Tree).spec.root);
    } catch (error) {
      setFault(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      <Textarea
        className="code"
        label="The tree, as YAML or JSON"
        rows={24}
        spellCheck={false}
        readOnly={fixed}
        value={text}
        error={fault && `The draft keeps the last text that could be read. ${fault}`}
        onChange={(event) => type(event.currentTarget.value)}
      />
      {!fault &&
        faults.map((one) => (
          <p key={one.field + one.message} className="bad-text">
            {said(one, read)}
          </p>
        ))}
    </>
  );
}

/** As an administrator keeps it in a file: without what the hub writes. */
export function manifestOf({ apiVersion, kind, metadata: { name, namespace }, spec }: Tree): string {
  return asYaml({ apiVersion, kind, metadata: { name, namespace }, spec });
}
