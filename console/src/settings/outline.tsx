/** The draft of a quota tree as an outline with fields. Each fault shows beside its field. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useState } from "react";
import { childField, type Fault, type Limits, type Node, ROOT, resourcesOf, WEIGHT } from "./tree";

const USUAL = ["nvidia.com/gpu", "cpu", "memory", "kube-queue/max-jobs"];
const LEVELS_OPEN = 2;

interface Props {
  node: Node;
  path: string;
  field: string;
  faults: Fault[];
  fixed: boolean; // the user may not change it
  change: (node: Node) => void;
  remove?: () => void;
}

const set = (limits: Limits | undefined, resource: string, value: string): Limits => {
  const { [resource]: _, ...rest } = limits ?? {};
  return value === "" ? rest : { ...rest, [resource]: value };
};

export function Outline({ node, path, field, faults, fixed, change, remove }: Props) {
  const own = faults.filter((one) => one.field.startsWith(field) && !one.field.startsWith(`${field}.children[`));
  const below = faults.filter((one) => one.field.startsWith(field));
  const [open, setOpen] = useState(path.split("/").length <= LEVELS_OPEN);
  const shown = open || own.length > 0;
  const children = node.children ?? [];
  return (
    <li>
      <details open={shown} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <strong>{path}</strong> <small>{brief(node)}</small>
          {below.length > 0 && <span className="bad-text"> to mend: {below.length}</span>}
        </summary>
        {shown && <Fields {...{ node, path, field, fixed, change, remove }} faults={own} />}
      </details>
      {children.length > 0 && (
        <ul>
          {children.map((child, index) => (
            <Outline
              // biome-ignore lint/suspicious/noArrayIndexKey: a name changes with each key that is typed.
              key={index}
              node={child}
              path={`${path}/${child.name}`}
              field={childField(field, index)}
              faults={below}
              fixed={fixed}
              change={(next) => change({ ...node, children: children.with(index, next) })}
              remove={() => change({ ...node, children: children.filter((one) => one !== child) })}
            />
          ))}
        </ul>
      )}
    </li>
  );
}

function brief(node: Node): string {
  const gpu = resourcesOf(node)[0];
  if (gpu === undefined) return "no limits";
  return `${gpu}: min ${node.min?.[gpu] ?? "none"}, max ${node.max?.[gpu] ?? "none"}`;
}

function Fields({ node, path, field, faults, fixed, change, remove }: Props) {
  const named = new Map(faults.map((one) => [one.field, one.message]));
  const resources = resourcesOf(node);
  const root = field === ROOT;
  const fields = [`${field}.name`, `${field}.namespaces`, `${field}.attributes[${WEIGHT}]`].concat(
    resources.flatMap((one) => [`${field}.min[${one}]`, `${field}.max[${one}]`]),
  );
  const { [WEIGHT]: weight, ...others } = node.attributes ?? {};
  const attributes = (next: Record<string, string>) => change({ ...node, attributes: next });
  const limit = (side: "min" | "max", resource: string, value: string) =>
    // The hub takes no root whose min and max differ.
    root
      ? change({ ...node, min: set(node.min, resource, value), max: set(node.max, resource, value) })
      : change({ ...node, [side]: set(node[side], resource, value) });
  return (
    <div className="node">
      {faults
        .filter((one) => !fields.includes(one.field))
        .map((one) => (
          <p key={one.field + one.message} className="bad-text">
            {one.field}: {one.message}
          </p>
        ))}
      <div className="attributes">
        <TextInput
          label="Name"
          aria-label={`Name of ${path}`}
          value={node.name}
          error={named.get(`${field}.name`)}
          readOnly={fixed}
          onChange={(event) => change({ ...node, name: event.currentTarget.value })}
        />
        {!node.children?.length && !root && (
          <TextInput
            label="Namespaces"
            aria-label={`Namespaces of ${path}`}
            placeholder="team-a team-b"
            defaultValue={(node.namespaces ?? []).join(" ")}
            error={faults.find((one) => one.field.startsWith(`${field}.namespaces`))?.message}
            readOnly={fixed}
            onChange={(event) =>
              change({ ...node, namespaces: event.currentTarget.value.split(/[\s,]+/).filter((one) => one !== "") })
            }
          />
        )}
        {!root && (
          <TextInput
            label="Weight"
            aria-label={`Weight of ${path}`}
            placeholder="its max"
            value={weight ?? ""}
            error={named.get(`${field}.attributes[${WEIGHT}]`)}
            readOnly={fixed}
            onChange={({ currentTarget: { value } }) => attributes(value ? { ...others, [WEIGHT]: value } : others)}
          />
        )}
      </div>
      {resources.map((resource) => (
        <fieldset key={resource} className="limits">
          <legend>{resource}</legend>
          {(root ? (["max"] as const) : (["min", "max"] as const)).map((side) => (
            <TextInput
              key={side}
              label={root ? "min and max" : side}
              aria-label={`${root ? "min and max" : side} of ${resource} in ${path}`}
              placeholder={side === "max" ? "no limit" : "0"}
              value={String(node[side]?.[resource] ?? "")}
              error={named.get(`${field}.${side}[${resource}]`) ?? (root && named.get(`${field}.min[${resource}]`))}
              readOnly={fixed}
              onChange={(event) => limit(side, resource, event.currentTarget.value)}
            />
          ))}
        </fieldset>
      ))}
      {Object.entries(others).map(([name, value]) => (
        <TextInput
          key={name}
          label={name}
          aria-label={`${name} of ${path}`}
          value={value}
          error={named.get(`${field}.attributes[${name}]`)}
          readOnly={fixed}
          onChange={(event) => {
            const { [name]: _, ...rest } = node.attributes ?? {};
            attributes(event.currentTarget.value ? { ...rest, [name]: event.currentTarget.value } : rest);
          }}
        />
      ))}
      {!fixed && (
        <div className="buttons">
          <label className="check">
            <input
              type="checkbox"
              checked={node.requireQueue ?? false}
              onChange={(event) => change({ ...node, requireQueue: event.currentTarget.checked || undefined })}
            />{" "}
            No job passes the queue
          </label>
          <NativeSelect
            aria-label={`Limit another resource in ${path}`}
            value=""
            data={["", ...USUAL.filter((one) => !resources.includes(one))].map((one) => ({
              value: one,
              label: one || "Limit another resource",
            }))}
            onChange={(event) => event.currentTarget.value && limit("max", event.currentTarget.value, "0")}
          />
          <Button
            variant="default"
            size="xs"
            onClick={() =>
              change({ ...node, namespaces: undefined, children: [...(node.children ?? []), { name: "new" }] })
            }
          >
            Add a queue below {node.name}
          </Button>
          {remove && (
            <Button variant="default" size="xs" className="danger" onClick={remove}>
              Remove {node.name}
            </Button>
          )}
        </div>
      )}
    </div>
  );
}
