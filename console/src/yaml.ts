/** YAML as kubectl reads it: as another spelling of JSON, by YAML 1.1 without its times. */

import {
  type DocumentOptions,
  isCollection,
  isNode,
  LineCounter,
  parseDocument,
  type SchemaOptions,
  stringify,
} from "yaml";

const READ: DocumentOptions & SchemaOptions = {
  version: "1.1",
  customTags: (tags) =>
    tags.filter((one) => typeof one === "string" || (one.format !== "TIME" && !one.tag.endsWith(":timestamp"))),
};

export interface Text {
  value: unknown;
  /** The line, from 1, of a field that is named as the hub names fields; else of the nearest one around it. */
  lineOf: (field: string) => number;
}

/** Every YAML reads the same in it: a text that one of them would take for something else has quotes. */
export const asYaml = (value: unknown) =>
  stringify(value, { compat: "yaml-1.1", aliasDuplicateObjects: false, lineWidth: 0 });

/** Throws an Error that names the line. */
export function readYaml(text: string): Text {
  const lines = new LineCounter();
  const document = parseDocument(text, { ...READ, lineCounter: lines, prettyErrors: false });
  const [fault] = document.errors;
  if (fault) {
    const said = fault.code === "MULTIPLE_DOCS" ? "a second document begins" : fault.message;
    throw new Error(`line ${lines.linePos(fault.pos[0]).line}: ${said}`);
  }
  const lineOf = (field: string) => {
    let [node, at]: [unknown, number] = [document.contents, 0];
    for (const [, name, bracketed] of field.matchAll(/([^.[\]]+)|\[([^\]]+)\]/g)) {
      const next: unknown = isCollection(node) ? node.get(keyed(name ?? bracketed), true) : undefined;
      if (!isNode(next)) break;
      [node, at] = [next, next.range?.[0] ?? at];
    }
    return lines.linePos(at).line;
  };
  return { value: document.toJS(), lineOf };
}

/** A number for the place in a list. */
const keyed = (name: string | undefined) => (/^\d+$/.test(name ?? "") ? Number(name) : name);
