/** The chart of use over time, which is loaded with its data by the pages that draw it. */

import { Skeleton } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { found, type UsageOverTime } from "./api";
import { Empty, Loaded } from "./shown";

const Chart = lazy(() => import("./chart"));
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** `hours`: up to now. Nothing is shown to a reader without the right. */
export function UseChart({ by, hours, label }: { by: "queue" | "member"; hours: number; label: string }) {
  const series = useQuery({
    queryKey: ["usage", by, hours],
    queryFn: () => {
      const from = new Date(Math.floor((Date.now() - hours * HOUR_MS) / MINUTE_MS) * MINUTE_MS);
      return found<UsageOverTime>(
        `/fleet/v1/reports/series?by=${by}&from=${from.toISOString().replace(".000", "")}&points=120`,
      );
    },
    refetchInterval: MINUTE_MS,
  });
  return (
    <Loaded query={series} height={280}>
      {(data) =>
        data === null ? (
          <Empty title="You may not see the use over time">
            An administrator can give you the right to list the queues and the members.
          </Empty>
        ) : data.series.length === 0 ? (
          <Empty title="Nothing is recorded yet">The hub records the use by the minute. Look again in a minute.</Empty>
        ) : (
          <Suspense fallback={<Skeleton height={280} aria-hidden="true" />}>
            <Chart data={data} label={label} />
          </Suspense>
        )
      }
    </Loaded>
  );
}
