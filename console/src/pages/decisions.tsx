/** The decisions that changed something, newest first, a page at a time. */

import { Button, NativeSelect } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { type Decision, type DecisionList, get } from "../api";
import { answerOf, causeOf, JobLink, milliseconds, NoDecision, quality } from "../decided";
import { Filter } from "../filter";
import { Empty, Loaded } from "../shown";
import { At } from "../times";

const PAGE = 50;
const CHANGES = [
  { value: "", label: "any" },
  { value: "starts", label: "started a job" },
  { value: "claims", label: "keeps room for a job" },
  { value: "evictions", label: "evicted a job" },
];

export function DecisionsPage() {
  const [address, setAddress] = useSearchParams();
  const [change, job, before] = ["change", "job", "before"].map((name) => address.get(name) ?? "");
  const asked = new URLSearchParams({ limit: String(PAGE) });
  for (const [name, value] of Object.entries({ change, job, continue: before })) if (value) asked.set(name, value);
  const page = useQuery({
    queryKey: ["decisions", "page", asked.toString()],
    queryFn: ({ signal }) => get<DecisionList>(`/fleet/v1/decisions?${asked}`, signal),
    placeholderData: keepPreviousData,
  });
  // Another filter begins with the newest decision.
  const set = (name: string, value: string) =>
    setAddress(
      (now) => {
        const after = new URLSearchParams(now);
        after.delete("before");
        if (value) after.set(name, value);
        else after.delete(name);
        return after;
      },
      { replace: true },
    );
  const at = (older: string | null) => {
    const after = new URLSearchParams(address);
    if (older) after.set("before", older);
    else after.delete("before");
    return `/decisions?${after}`;
  };
  const filtered = Boolean(change || job);
  return (
    <>
      <h1>Decisions</h1>
      <p className="note">
        The hub decides again whenever something changes. The list has the decisions that started a job or took room
        back.
      </p>
      <form className="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <NativeSelect
          label="Change"
          value={change}
          data={CHANGES}
          onChange={(event) => set("change", event.currentTarget.value)}
        />
        <Filter name="job" value={job ?? ""} set={set} />
        <Button variant="default" disabled={!filtered} onClick={() => setAddress({}, { replace: true })}>
          Clear
        </Button>
      </form>
      {page.error && !page.data ? (
        <NoDecision error={page.error} again={() => void page.refetch()} />
      ) : (
        <Loaded query={page} height={400}>
          {(data) => (
            <>
              {data.items.length > 0 ? (
                <Rows items={data.items} />
              ) : (
                <Nothing filtered={filtered} more={data.continue !== null} />
              )}
              <p className="pages">
                {before && <Link to={at(null)}>Newest</Link>}
                {data.continue && <Link to={at(data.continue)}>Older</Link>}
              </p>
            </>
          )}
        </Loaded>
      )}
    </>
  );
}

function Nothing({ filtered, more }: { filtered: boolean; more: boolean }) {
  if (filtered)
    return (
      <Empty title="No decision matches">
        {more ? "Older decisions may: look further back with Older." : "Take a filter away, or wait for one to come."}
      </Empty>
    );
  return (
    <Empty title="No decisions yet">
      Submit a job with <code>fleet run</code>. The decision that starts it shows here some seconds later.
    </Empty>
  );
}

function Rows({ items }: { items: Decision[] }) {
  return (
    <section className="wide" tabIndex={0} aria-label="Decisions">
      <table className="decisions">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Changes</th>
            <th scope="col" className="number">
              Left waiting
            </th>
            <th scope="col" className="less">
              Answer
            </th>
            <th scope="col" className="less">
              Quality
            </th>
            <th scope="col" className="number less">
              Took
            </th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.id}>
              <th scope="row">
                <Link to={`/decisions/${one.id}`}>
                  <At at={one.at} />
                </Link>
              </th>
              <td className="names">
                <Change what="Started" number={one.placed} named={one.named.starts} />
                <Change what="Keeps room for" number={one.claimed ?? 0} named={one.named.claims} />
                <Change what="Evicted" number={one.evicted ?? 0} named={one.named.evictions} />
              </td>
              <td className="number">
                <Link to={`/decisions/${one.id}#waiting`}>{one.waiting.toLocaleString()}</Link>
              </td>
              <td className="less" title={causeOf(one.causes) || undefined}>
                {answerOf(one.shipped)}
              </td>
              <td className="less">{quality(one.gap)}</td>
              <td className="number less">{one.tookMs === null ? "–" : milliseconds(one.tookMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Change({ what, number, named }: { what: string; number: number; named: { kind: string; job: string }[] }) {
  if (number === 0) return null;
  return (
    <div>
      {what} {number.toLocaleString()}
      {named.length > 0 && ": "}
      {named.map((one, index) => (
        <span key={one.job}>
          {index > 0 && ", "}
          <JobLink {...one} />
        </span>
      ))}
      {named.length > 0 && number > named.length && ` and ${(number - named.length).toLocaleString()} more`}
    </div>
  );
}
