/** The chart of use over time, which is loaded with its data by the pages that draw it. */

import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo } from "react";
import { found, type UsageOverTime } from "./api";
import { useLeaves } from "./leaves";
import { shades } from "./shades";
import { Empty, Loaded } from "./shown";

const Chart = lazy(() => import("./chart"));
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const HEIGHT = 280; // of .use too
const POINTS = 120;

const recorded = (by: string, from: string) =>
  found<UsageOverTime>(`/fleet/v1/reports/series?by=${by}&from=${from.replace(".000", "")}&points=${POINTS}`);

/** `hours`: up to now. Nothing is shown to a reader without the right. */
export function UseChart({ by, hours, label }: { by: "queue" | "member"; hours: number; label: string }) {
  const series = useQuery({
    queryKey: ["usage", by, hours],
    queryFn: async () => {
      const from = new Date(Math.floor((Date.now() - hours * HOUR_MS) / MINUTE_MS) * MINUTE_MS);
      const all = await recorded(by, from.toISOString());
      const first = all?.at.findIndex((_, index) => all.series.some((one) => one.used[index] !== null)) ?? -1;
      const began = all && first > POINTS / 2 ? all.at[first] : undefined;
      // Of a young hub, the time it knows: a chart of a day would be a line at its end.
      return began ? recorded(by, began) : all;
    },
    refetchInterval: MINUTE_MS,
  });
  const leaves = useLeaves();
  const tones = useMemo(() => {
    const names = (series.data?.series ?? []).map((one) => one.name);
    return leaves === undefined ? undefined : shades(names, by === "queue" ? leaves : null);
  }, [series.data, leaves, by]);
  return (
    <div className="use">
      <Loaded query={series} height={HEIGHT}>
        {(data) =>
          data === null ? (
            <Empty title="You may not see the use over time">
              An administrator can give you the right to list the queues and the members.
            </Empty>
          ) : data.series.length === 0 ? (
            <Empty title="Nothing is recorded yet">
              The hub records the use by the minute. Look again in a minute.
            </Empty>
          ) : (
            <Suspense fallback={<Skeleton height={HEIGHT} aria-hidden="true" />}>
              {tones ? (
                <Chart data={data} tones={tones} label={label} />
              ) : (
                <Skeleton height={HEIGHT} aria-hidden="true" />
              )}
            </Suspense>
          )
        }
      </Loaded>
    </div>
  );
}
