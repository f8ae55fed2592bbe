/** Use over time as stacked areas under the line of the capacity, and the same numbers as a table. */

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useMantineColorScheme } from "@mantine/core";
import type { UsageOverTime } from "./api";
import { Mark, type Shades } from "./shades";

const HEIGHT = 220;
const ROWS_MOST = 12; // of the table: the steps lie evenly

const named = (name: string | null | undefined) => name ?? "others";
const gpus = (value: number | null | undefined) =>
  value === null || value === undefined ? "–" : value.toLocaleString(undefined, { maximumFractionDigits: 1 });
const clock = (at: string, dated: boolean) =>
  new Date(at).toLocaleString(undefined, dated ? { dateStyle: "short", timeStyle: "short" } : { timeStyle: "short" });

/** A time below the chart, as its reader writes times; at midnight the day. */
function tick(at: number): string {
  const time = new Date(at * 1000);
  return time.getHours() === 0 && time.getMinutes() === 0
    ? time.toLocaleDateString(undefined, { day: "numeric", month: "short" })
    : time.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

export default function Chart({ data, tones, label }: { data: UsageOverTime; tones: Shades; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const { colorScheme } = useMantineColorScheme();
  const names = data.series.map((one) => named(one.name));
  useEffect(() => {
    const holder = place.current;
    if (holder === null) return;
    void colorScheme; // the colours of the axes are read anew
    const plot = new uPlot(options(data, tones, holder), columns(data), holder);
    const watch = new ResizeObserver(() => plot.setSize({ width: holder.clientWidth, height: HEIGHT }));
    watch.observe(holder);
    return () => {
      watch.disconnect();
      plot.destroy();
    };
  }, [data, tones, colorScheme]);
  const dated = data.stepS * data.at.length > 90_000;
  const step = Math.max(1, Math.ceil(data.at.length / ROWS_MOST));
  const rows = data.at
    .map((at, index) => ({ at, index }))
    .filter(({ index }) => (data.at.length - 1 - index) % step === 0);
  return (
    <figure className="chart">
      <div ref={place} role="img" aria-label={`${label}. The table below has the numbers.`} />
      <ul className="legend" aria-label="Meaning of the areas">
        {data.series.map(({ name }) => (
          <li key={named(name)}>
            <Mark shade={tones.get(name)} /> {named(name)}
          </li>
        ))}
        {data.capacity && <li>– – capacity</li>}
      </ul>
      <details>
        <summary>The numbers as a table</summary>
        <section className="wide" tabIndex={0} aria-label={`${label}, as a table`}>
          <table>
            <thead>
              <tr>
                <th scope="col">From</th>
                {names.map((name) => (
                  <th key={name} scope="col" className="number">
                    {name}
                  </th>
                ))}
                {data.capacity && (
                  <th scope="col" className="number">
                    Capacity
                  </th>
                )}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ at, index }) => (
                <tr key={at}>
                  <th scope="row">{clock(at, dated)}</th>
                  {data.series.map((one) => (
                    <td key={named(one.name)} className="number">
                      {gpus(one.used[index])}
                    </td>
                  ))}
                  {data.capacity && <td className="number">{gpus(data.capacity[index])}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </details>
    </figure>
  );
}

/** Seconds, the sums from the bottom up, and the capacity. Each area reaches down to the one below it. */
function columns(data: UsageOverTime): uPlot.AlignedData {
  const sums: (number | null)[][] = [];
  for (const one of data.series) {
    const below = sums.at(-1);
    sums.push(one.used.map((value, index) => (value === null ? null : value + (below?.[index] ?? 0))));
  }
  const capacity = data.capacity ? [data.capacity] : [];
  return [data.at.map((at) => Date.parse(at) / 1000), ...sums.reverse(), ...capacity] as uPlot.AlignedData;
}

function options(data: UsageOverTime, tones: Shades, holder: HTMLElement): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  // The largest sum is drawn first, and the smaller ones over it.
  const areas = [...data.series].reverse().map((one) => {
    const shade = colour(`--shade-${tones.get(one.name)?.number}`);
    return { label: named(one.name), stroke: shade, fill: shade, width: 1, points: { show: false } };
  });
  const line = { label: "capacity", stroke: colour("--quiet"), width: 2, dash: [6, 4], points: { show: false } };
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width: holder.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    series: [{}, ...areas, ...(data.capacity ? [line] : [])],
    axes: [
      { ...axis, space: 80, values: (_, at) => at.map(tick) },
      { ...axis, size: 50 },
    ],
  };
}
