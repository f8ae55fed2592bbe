/** What surrounds each page: the login, the navigation, the banner of a lost connection. */

import { Button, useMantineColorScheme } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useEffect, useRef } from "react";
import { NavLink, Outlet, useLocation } from "react-router";
import { get, Refusal, type Session, send, whenSignedOut } from "./api";
import { useChanges } from "./live";
import { Login } from "./login";
import { forget } from "./settings/draft";
import { Trouble } from "./shown";

const PAGES: [string, string][] = [
  ["/", "Fleet"],
  ["/queues", "Queues"],
  ["/jobs", "Jobs"],
  ["/members", "Members"],
  ["/decisions", "Decisions"],
  ["/usage", "Usage"],
  ["/what-if", "What if"],
  ["/settings", "Settings"],
];

async function session(): Promise<Session | null> {
  try {
    return await get<Session>("/console/session");
  } catch (error) {
    if (error instanceof Refusal && error.code === 401) return null;
    throw error;
  }
}

export function Frame() {
  const client = useQueryClient();
  const query = useQuery({ queryKey: ["session"], queryFn: session, staleTime: 60_000 });
  useEffect(
    () => whenSignedOut(() => void client.invalidateQueries({ queryKey: ["session"], refetchType: "active" })),
    [client],
  );
  if (query.data === null) return <Login />;
  if (query.data !== undefined) return <Inside session={query.data} />;
  return <main className="login">{query.error ? <Trouble error={query.error} /> : <p>Asking the hub …</p>}</main>;
}

function Inside({ session }: { session: Session }) {
  const connected = useChanges();
  const client = useQueryClient();
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  const shown = useRef(pathname);
  // A reader of the screen starts at the top of the new page.
  useEffect(() => {
    if (shown.current !== pathname) main.current?.focus();
    shown.current = pathname;
  }, [pathname]);
  const leave = async () => {
    await send("/console/session", { method: "DELETE" }).catch(() => undefined);
    client.setQueryData(["session"], null);
    // The next user must not see what this one saw.
    forget();
    client.removeQueries({ predicate: (query) => query.queryKey[0] !== "session" });
  };
  return (
    <>
      <a className="skip" href="#main">
        To the page
      </a>
      <header>
        <span className="brand">Fleet</span>
        <nav aria-label="Pages">
          {PAGES.map(([to, name]) => (
            <NavLink key={to} to={to} end={to === "/"}>
              {name}
            </NavLink>
          ))}
        </nav>
        <div className="who">
          <span title={session.user.groups.join(", ")}>{session.user.name}</span>
          <Scheme />
          <Button size="compact-sm" variant="default" onClick={() => void leave()}>
            Log out
          </Button>
        </div>
      </header>
      <div className="banner" role="status">
        {connected ? "" : "The connection to the hub is lost. The page shows what it last knew, and asks again."}
      </div>
      <main id="main" ref={main} tabIndex={-1}>
        <Suspense>
          <Outlet />
        </Suspense>
      </main>
    </>
  );
}

function Scheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const next = { auto: "dark", dark: "light", light: "auto" } as const;
  return (
    <Button
      size="compact-sm"
      variant="default"
      onClick={() => setColorScheme(next[colorScheme])}
      aria-label={`Colours: ${colorScheme}. Change to ${next[colorScheme]}`}
    >
      {{ auto: "Auto", dark: "Dark", light: "Light" }[colorScheme]}
    </Button>
  );
}
