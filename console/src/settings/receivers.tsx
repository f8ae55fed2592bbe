/** The receivers of notifications, without their secrets, and what was sent to them lately. */

import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "react-router";
import { count } from "../amounts";
import { allowed, get, jobPath, write } from "../api";
import type { components } from "../fleet";
import { Empty, Loaded } from "../shown";
import { Ago } from "../times";
import { NewObject } from "./newobject";
import { Missing, useRights } from "./rights";

const GROUP = { group: "config.fleet.io", resource: "notificationreceivers" };
const RECEIVERS = "/apis/config.fleet.io/v1alpha1/notificationreceivers";
const EVENTS = ["Succeeded", "Failed", "Evicted"]; // of a receiver that names none

const TEMPLATE = `apiVersion: config.fleet.io/v1alpha1
kind: NotificationReceiver
metadata:
  name: chat
spec:
  selector: {} # all jobs of the namespace
  events: [Started, Succeeded, Failed, Evicted]
  waitsLongerThan: 2h
  webhook:
    format: Slack
    urlFrom: # a Secret of the type fleet.io/notification in the same namespace
      name: chat-hook
      key: url
`;

interface Receiver {
  metadata: { name: string; namespace: string; uid: string };
  spec: {
    events?: string[];
    waitsLongerThan?: string;
    webhook?: { format?: string };
    smtp?: { host: string; to: string[] };
  };
  status?: { conditions?: { type: string; status: string; message?: string }[] };
}

type Sent = components["schemas"]["NotificationList"];

export function ReceiversPart() {
  const may = useRights("notifications", {
    list: () => allowed({ ...GROUP, verb: "list" }),
    update: () => allowed({ ...GROUP, verb: "update" }),
    create: () => allowed({ ...GROUP, verb: "create" }),
  });
  const receivers = useQuery({
    queryKey: ["receivers"],
    queryFn: () => get<{ items: Receiver[] }>(RECEIVERS),
    enabled: may?.list ?? false,
  });
  const sent = useQuery({
    queryKey: ["receivers", "sent"],
    queryFn: () => get<Sent>("/fleet/v1/notifications?limit=100"),
    enabled: may?.list ?? false,
  });
  if (may && !may.list)
    return <Missing right="list notificationreceivers">The receivers of notifications are not yours to see.</Missing>;
  return (
    <>
      <h3>Receivers</h3>
      <Loaded query={receivers} height={120}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There are no receivers">
              A NotificationReceiver tells a webhook, a channel or a mailbox what happens to jobs. Make one below, or
              store one with <code>fleet submit receiver.yaml</code>.
            </Empty>
          ) : (
            <div className="cards">
              {items.map((one) => (
                <Card key={one.metadata.uid} receiver={one} may={may?.update ?? false} />
              ))}
            </div>
          )
        }
      </Loaded>
      {may?.create && (
        <NewObject
          word="receiver"
          template={TEMPLATE}
          path="/apis/config.fleet.io/v1alpha1/namespaces/{}/notificationreceivers"
          queryKey={["receivers"]}
        />
      )}
      <h3>Sent lately</h3>
      <Loaded query={sent} height={120}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="note">No notification was due in the last week.</p>
          ) : (
            <ul className="events">
              {items.map((one) => (
                <li key={one.id}>
                  <span>
                    {one.namespace}/{one.receiver}
                  </span>
                  <Link to={`/jobs/${jobPath(one.job)}`}>{one.job.name}</Link>
                  <span>{one.event}</span>
                  <Ago at={one.at} />
                  <span className={`state ${one.state === "Delivered" ? "good" : one.error ? "bad" : ""}`}>
                    {one.state}
                  </span>
                  <span>{count(one.tries, "try").replace("trys", "tries")}</span>
                  <span className="why">{one.error ?? ""}</span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </>
  );
}

function Card({ receiver, may }: { receiver: Receiver; may: boolean }) {
  const client = useQueryClient();
  const { name, namespace } = receiver.metadata;
  const retry = useMutation({
    mutationFn: () =>
      write<{ notifications: number }>(
        "POST",
        `/fleet/v1/notifications/retry?${new URLSearchParams({ namespace, receiver: name })}`,
        {},
      ),
    onSettled: () => client.invalidateQueries({ queryKey: ["receivers"] }),
  });
  const { events = EVENTS, waitsLongerThan, webhook, smtp } = receiver.spec;
  const told = waitsLongerThan ? [...events, `waits longer than ${waitsLongerThan}`] : events;
  const delivering = receiver.status?.conditions?.find((one) => one.type === "Delivering");
  const tone = delivering === undefined ? "" : delivering.status === "True" ? "good" : "bad";
  return (
    <article className="card" aria-label={`Receiver ${namespace}/${name}`}>
      <h3>
        {namespace}/{name}
      </h3>
      <p>{smtp ? `mail over ${smtp.host} to ${smtp.to.join(", ")}` : `webhook, ${webhook?.format ?? "Fleet"}`}</p>
      <p>{told.join(", ")}</p>
      <p>
        <span className={`state ${tone}`}>
          {delivering === undefined ? "nothing sent yet" : delivering.status === "True" ? "delivers" : "fails"}
        </span>{" "}
        {delivering?.message}
      </p>
      {may && (
        <Button variant="default" size="xs" disabled={retry.isPending} onClick={() => retry.mutate()}>
          Try failed ones again
        </Button>
      )}
      <p role="status">{retry.data ? `${count(retry.data.notifications, "notification")} tried again` : ""}</p>
      {retry.error && (
        <p className="bad-text" role="alert">
          {retry.error.message}
        </p>
      )}
    </article>
  );
}
