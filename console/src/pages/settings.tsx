/** The settings of the hub. Each part has an address of its own. */

import { NavLink, useParams } from "react-router";
import { PoliciesPart } from "../settings/policies";
import { QuotaPart } from "../settings/quota";
import { ReceiversPart } from "../settings/receivers";
import { TokensPart } from "../settings/tokens";
import { MissingPage } from "./missing";

const PARTS = {
  quota: ["Quota", QuotaPart],
  policies: ["Policies", PoliciesPart],
  tokens: ["Tokens", TokensPart],
  notifications: ["Notifications", ReceiversPart],
} as const;

export function SettingsPage() {
  const { part = "quota" } = useParams();
  const [title, Part] = PARTS[part as keyof typeof PARTS] ?? ["", undefined];
  if (Part === undefined) return <MissingPage />;
  return (
    <>
      <h1>Settings</h1>
      <nav className="parts" aria-label="Parts of the settings">
        {Object.entries(PARTS).map(([path, [name]]) => (
          <NavLink key={path} to={`/settings/${path}`} className={path === part ? "active" : ""}>
            {name}
          </NavLink>
        ))}
      </nav>
      <h2>{title}</h2>
      <Part />
    </>
  );
}
