import { Button, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useLocation } from "react-router";
import { get, type Methods, Refusal, type Session, write } from "./api";

// Why a login through the issuer led back here: the reason of the hub's refusal, in the address. `after`: seconds until
// another try makes sense.
const FAILED: Record<string, string> = {
  BadRequest: "This login took too long, was used already, or began in another browser. Log in again.",
  Unauthorized: "The issuer does not log you in, or you are no user of this hub. The log of the hub has the reason.",
  ServiceUnavailable: "The issuer cannot be asked now. A token works all the same.",
  TooManyRequests: "The hub has had too many logins lately, or too many that failed.",
};

const AFTER_MOST_S = 3_600;

function again(address: URLSearchParams): string {
  const after = Number(address.get("after"));
  if (!(after > 0 && after <= AFTER_MOST_S)) return "";
  return ` Try again after ${new Date(Date.now() + after * 1_000).toLocaleTimeString()}.`;
}

export function Login() {
  const client = useQueryClient();
  const { pathname, search, hash } = useLocation();
  const [token, setToken] = useState("");
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const methods = useQuery({ queryKey: ["methods"], queryFn: () => get<Methods>("/console/methods") });
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setTrouble("");
    try {
      const session = await write<Session>("POST", "/console/session", { token: token.trim() });
      client.setQueryData(["session"], session);
    } catch (error) {
      setBusy(false);
      if (error instanceof Refusal && error.code === 401) setTrouble("The hub does not know this token.");
      else setTrouble(error instanceof Error ? error.message : String(error));
    }
  };
  const address = new URLSearchParams(search);
  const failed = FAILED[address.get("login") ?? ""];
  const [when] = useState(() => again(address));
  const oidc = `/console/login/oidc?to=${encodeURIComponent(failed ? "/console" : `/console${pathname}${search}${hash}`)}`;
  return (
    <main className="login">
      <h1>Fleet</h1>
      {failed && (
        <p className="bad-text" role="alert">
          {failed}
          {when}
        </p>
      )}
      {methods.data?.methods.includes("oidc") && (
        <Button component="a" href={oidc} fullWidth>
          Log in with {methods.data.issuer ? new URL(methods.data.issuer).host : "OpenID Connect"}
        </Button>
      )}
      <form onSubmit={(event) => void submit(event)}>
        <TextInput
          type="password"
          label="Token"
          description="An administrator makes one with: fleet token create NAME. The token of your kubeconfig works, too."
          value={token}
          onChange={(event) => setToken(event.currentTarget.value)}
          error={trouble || undefined}
          autoComplete="off"
          required
        />
        <Button type="submit" loading={busy} fullWidth mt="md">
          Log in
        </Button>
      </form>
    </main>
  );
}
