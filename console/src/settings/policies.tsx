/** The policies: what each takes and how, and the text of one, checked by the hub before it is stored. */

import { Button, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { allowed, get, send, write } from "../api";
import { Empty, Loaded } from "../shown";
import { NewObject } from "./newobject";
import { Missing, useRights } from "./rights";

const GROUP = "policy.one.alibabacloud.com";
const ALL = `/apis/${GROUP}/v1alpha1`;
const KINDS = { PropagationPolicy: "propagationpolicies", ClusterPropagationPolicy: "clusterpropagationpolicies" };

// A gang that waits in its queue, and runs whole in one member.
const TEMPLATE = `apiVersion: ${GROUP}/v1alpha1
kind: PropagationPolicy
metadata:
  name: train
spec:
  suspension:
    scheduling: true
  propagateDeps: true
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      customSchedulingType: Gang
  resourceSelectors:
    - apiVersion: kubeflow.org/v1
      kind: PyTorchJob
`;

interface Policy {
  kind: string;
  metadata: { name: string; namespace?: string; uid: string; resourceVersion: string };
  spec: {
    suspension?: { scheduling?: boolean };
    resourceSelectors?: { kind: string; name?: string; namespace?: string }[];
    placement?: {
      clusterAffinity?: { clusterNames?: string[] };
      replicaScheduling?: { customSchedulingType?: string };
    };
  };
}

const listed = async (kind: keyof typeof KINDS) =>
  (await get<{ items: Policy[] }>(`${ALL}/${KINDS[kind]}`)).items.map((one) => ({ ...one, kind }));

function pathOf(kind: string, namespace: string | undefined, name: string): string {
  const resource = KINDS[kind as keyof typeof KINDS];
  const where = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${ALL}${where}/${resource}/${encodeURIComponent(name)}`;
}

export function PoliciesPart() {
  const [address] = useSearchParams();
  const may = useRights("policies", {
    spaced: () => allowed({ verb: "list", group: GROUP, resource: KINDS.PropagationPolicy }),
    wide: () => allowed({ verb: "list", group: GROUP, resource: KINDS.ClusterPropagationPolicy }),
    create: () => allowed({ verb: "create", group: GROUP, resource: KINDS.PropagationPolicy }),
  });
  const policies = useQuery({
    queryKey: ["policies", may?.spaced, may?.wide],
    queryFn: async () => [
      ...(may?.spaced ? await listed("PropagationPolicy") : []),
      ...(may?.wide ? await listed("ClusterPropagationPolicy") : []),
    ],
    enabled: may !== undefined && (may.spaced || may.wide),
  });
  const [kind, name] = [address.get("kind") ?? "", address.get("name") ?? ""];
  const namespace = address.get("namespace") ?? undefined;
  if (kind in KINDS && name)
    return <Opened key={`${kind}/${namespace}/${name}`} kind={kind} namespace={namespace} name={name} />;
  if (may && !may.spaced && !may.wide)
    return <Missing right="list propagationpolicies">The policies are not yours to see.</Missing>;
  return (
    <>
      {may && !may.spaced && <Missing right="list propagationpolicies">Those of namespaces are left out.</Missing>}
      {may && !may.wide && (
        <Missing right="list clusterpropagationpolicies">Those of all namespaces are left out.</Missing>
      )}
      <Loaded query={policies} height={200}>
        {(items) =>
          items.length === 0 ? (
            <Empty title="There are no policies">
              No job leaves the hub without one. Make one below, or store one with <code>fleet submit policy.yaml</code>
              .
            </Empty>
          ) : (
            <ul className="events">
              {items.map((one) => (
                <li key={one.metadata.uid}>
                  <Link to={addressOf(one)}>
                    {one.metadata.namespace ? `${one.metadata.namespace}/` : ""}
                    {one.metadata.name}
                  </Link>
                  <span>{one.metadata.namespace ? `namespace ${one.metadata.namespace}` : "all namespaces"}</span>
                  <span>{takes(one)}</span>
                  <span>{one.spec.suspension?.scheduling ? "waits in the queue" : "passes the queue"}</span>
                  {one.spec.placement?.replicaScheduling?.customSchedulingType === "Gang" && <span>gang</span>}
                  <span>{one.spec.placement?.clusterAffinity?.clusterNames?.join(", ") ?? "any member"}</span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {may?.create && (
        <NewObject
          word="policy"
          template={TEMPLATE}
          path={`${ALL}/namespaces/{}/${KINDS.PropagationPolicy}`}
          queryKey={["policies"]}
        />
      )}
    </>
  );
}

function addressOf({ kind, metadata }: Policy): string {
  const address = new URLSearchParams({ kind, name: metadata.name });
  if (metadata.namespace) address.set("namespace", metadata.namespace);
  return `/settings/policies?${address}`;
}

const takes = (policy: Policy) =>
  (policy.spec.resourceSelectors ?? []).map((one) => (one.name ? `${one.kind} ${one.name}` : one.kind)).join(", ");

interface One {
  kind: string;
  namespace?: string;
  name: string;
}

function Opened({ kind, namespace, name }: One) {
  const path = pathOf(kind, namespace, name);
  const one = { group: GROUP, resource: KINDS[kind as keyof typeof KINDS], namespace, name };
  const may = useRights(path, {
    update: () => allowed({ ...one, verb: "update" }),
    remove: () => allowed({ ...one, verb: "delete" }),
  });
  // Not of the kind `policies`: a change on the hub must not take away what somebody types.
  const read = useQuery({
    queryKey: ["draft", path],
    queryFn: async () => (await send(path, { headers: { accept: "application/yaml" } })).text(),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  return (
    <>
      <p>
        <Link to="/settings/policies">All policies</Link>
      </p>
      <h3>
        {kind} {namespace ? `${namespace}/` : ""}
        {name}
      </h3>
      <Loaded query={read} height={300}>
        {(text) => <Editor key={text} path={path} name={name} read={text} may={may} again={read.refetch} />}
      </Loaded>
    </>
  );
}

interface EditorProps {
  path: string;
  name: string;
  read: string;
  may: { update: boolean; remove: boolean } | undefined;
  again: () => unknown;
}

function Editor({ path, name, read, may, again }: EditorProps) {
  const client = useQueryClient();
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState(read);
  const [, setAddress] = useSearchParams();
  const store = (dry: boolean) =>
    write("PUT", `${path}?fieldValidation=Strict${dry ? "&dryRun=All" : ""}`, text, "application/yaml");
  const check = useMutation({ mutationFn: () => store(true) });
  const changed = () => client.invalidateQueries({ queryKey: ["policies"] });
  const apply = useMutation({ mutationFn: () => store(false), onSuccess: () => Promise.all([changed(), again()]) });
  const remove = useMutation({
    mutationFn: () => write("DELETE", path, {}),
    onSuccess: () => {
      setAddress({});
      return changed();
    },
  });
  const trouble = check.error ?? apply.error ?? remove.error;
  const type = (next: string) => {
    setText(next);
    check.reset();
    apply.reset();
  };
  return (
    <>
      {may && !may.update && (
        <Missing right="update propagationpolicies">You see the policy, and cannot edit it.</Missing>
      )}
      <Textarea
        className="code"
        label="The policy, as YAML or JSON"
        rows={24}
        spellCheck={false}
        readOnly={!may?.update}
        value={text}
        onChange={(event) => type(event.currentTarget.value)}
      />
      <div className="buttons">
        {may?.update && (
          <>
            <Button variant="default" disabled={check.isPending} onClick={() => check.mutate()}>
              Check
            </Button>
            <Button disabled={!check.isSuccess || apply.isPending} onClick={() => apply.mutate()}>
              Apply
            </Button>
          </>
        )}
        {may?.remove && (
          <Button variant="default" className="danger" onClick={() => dialog.current?.showModal()}>
            Delete the policy
          </Button>
        )}
      </div>
      <p role="status">{check.isSuccess && text !== read ? "The hub would take the policy." : ""}</p>
      {trouble && (
        <p className="bad-text" role="alert">
          {trouble.message}
        </p>
      )}
      <dialog ref={dialog} aria-labelledby="sure-policy">
        <h2 id="sure-policy">Delete {name}?</h2>
        <p>Jobs that the policy took stay where they are. New jobs need another policy.</p>
        <form method="dialog" className="buttons">
          <Button type="submit" variant="default">
            Keep it
          </Button>
          <Button type="submit" variant="default" className="danger" onClick={() => remove.mutate()}>
            Delete it
          </Button>
        </form>
      </dialog>
    </>
  );
}
