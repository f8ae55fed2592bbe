/** The tokens of users: who has one and until when, a new one, whose secret is shown once, and the end of one. */

import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { allowedPath, get, Refusal, send, write } from "../api";
import { Confirm } from "../confirm";
import type { components } from "../fleet";
import { Loaded } from "../shown";
import { At } from "../times";
import { Missing, useRights } from "./rights";

const PATH = "/fleet/v1/tokens";
const DAY = 86_400;
const TERMS = [
  { value: String(DAY), label: "1 day" },
  { value: String(7 * DAY), label: "7 days" },
  { value: String(30 * DAY), label: "30 days" },
  { value: String(90 * DAY), label: "90 days" },
  { value: String(365 * DAY), label: "365 days" },
];

type Token = components["schemas"]["Token"];
type Made = components["schemas"]["MadeToken"];

export function TokensPart() {
  const may = useRights("tokens", {
    list: () => allowedPath("get", PATH),
    make: () => allowedPath("post", PATH),
    end: () => allowedPath("delete", `${PATH}/any`),
  });
  const tokens = useQuery({
    queryKey: ["tokens"],
    queryFn: () => get<components["schemas"]["TokenList"]>(PATH),
    enabled: may?.list ?? false,
  });
  if (may && !may.list) return <Missing right={`get ${PATH}`}>The tokens of users are not yours to see.</Missing>;
  return (
    <>
      <p className="note">
        A token names a user and her groups; roles on the hub say what she may do. Tokens of service accounts and of an
        issuer are not in this list.
      </p>
      <Loaded query={tokens} height={160}>
        {({ items }) => (
          <section className="wide" tabIndex={0} aria-label="Tokens">
            <table>
              <thead>
                <tr>
                  <th scope="col">User</th>
                  <th scope="col">Groups</th>
                  <th scope="col">Id</th>
                  <th scope="col">Ends</th>
                  <th scope="col">Revoke</th>
                </tr>
              </thead>
              <tbody>
                {items.map((one) => (
                  <Row key={one.id} token={one} may={may?.end ?? false} />
                ))}
              </tbody>
            </table>
          </section>
        )}
      </Loaded>
      {may?.make && <NewToken />}
    </>
  );
}

function Row({ token, may }: { token: Token; may: boolean }) {
  const client = useQueryClient();
  const end = useMutation({
    mutationFn: () => send(`${PATH}/${encodeURIComponent(token.id)}`, { method: "DELETE" }),
    onSettled: () => client.invalidateQueries({ queryKey: ["tokens"] }),
  });
  return (
    <tr>
      <td>{token.user}</td>
      <td>{token.groups.join(", ")}</td>
      <td>
        <code>{token.id}</code>
      </td>
      <td>
        {token.expires === null ? "never" : <At at={token.expires} />}
        {token.expired && <span className="state bad"> over</span>}
      </td>
      <td>
        {token.own ? (
          <span className="note">the administrator's own</span>
        ) : (
          may && (
            <Confirm
              label="Revoke"
              title={`Revoke the token ${token.id} of ${token.user}?`}
              act={() => end.mutate()}
              disabled={end.isPending}
              danger
              small
            >
              <p>Its requests are refused within a second, and its sessions of the console end.</p>
            </Confirm>
          )
        )}
        {end.error && (
          <span className="bad-text" role="alert">
            {end.error.message}
          </span>
        )}
      </td>
    </tr>
  );
}

function NewToken() {
  const client = useQueryClient();
  const [user, setUser] = useState("");
  const [groups, setGroups] = useState("");
  const [term, setTerm] = useState(String(30 * DAY));
  const make = useMutation({
    mutationFn: () => {
      const named = groups.split(/[\s,]+/).filter(Boolean);
      return write<Made>("POST", PATH, { user: user.trim(), groups: named, ttlSeconds: Number(term) });
    },
    onSuccess: () => {
      setUser("");
      setGroups("");
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["tokens"] }),
  });
  const causes = make.error instanceof Refusal ? make.error.causes : [];
  const beside = (field: string) => causes.find((one) => one.field?.startsWith(field))?.message;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate();
  };
  return (
    <section aria-label="New token">
      <h3>New token</h3>
      <form className="fields" onSubmit={submit}>
        <TextInput
          label="User"
          value={user}
          required
          error={beside("user")}
          onChange={(event) => setUser(event.currentTarget.value)}
        />
        <TextInput
          label="Groups, with commas between them"
          value={groups}
          error={beside("groups")}
          onChange={(event) => setGroups(event.currentTarget.value)}
        />
        <NativeSelect
          label="Ends after"
          value={term}
          data={TERMS}
          onChange={(event) => setTerm(event.currentTarget.value)}
        />
        <div className="buttons">
          <Button type="submit" disabled={make.isPending}>
            Make the token
          </Button>
        </div>
      </form>
      {make.error && causes.length === 0 && (
        <p className="bad-text" role="alert">
          {make.error.message}
        </p>
      )}
      {make.data && <Secret made={make.data} />}
    </section>
  );
}

/** The one time that the secret is shown. */
function Secret({ made }: { made: Made }) {
  const [copied, setCopied] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(made.token);
      setCopied("Copied.");
    } catch {
      setCopied("The browser does not let the page copy: select the text instead.");
    }
  };
  return (
    <div className="card" role="status">
      <p>The token of {made.user}. The hub shows it this once: hand it over now, or make another one.</p>
      <p>
        <code className="secret">{made.token}</code>
      </p>
      <div className="buttons">
        <Button variant="default" onClick={copy}>
          Copy
        </Button>
      </div>
      <p>{copied}</p>
    </div>
  );
}
