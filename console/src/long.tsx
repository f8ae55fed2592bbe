import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useRef } from "react";

const ROW_PX = 36;

/** A list of any length, of which only the rows in view are drawn. */
export function Long<T>({ items, label, children }: { items: T[]; label: string; children: (item: T) => ReactNode }) {
  const scroll = useRef<HTMLElement>(null);
  const virtual = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
  });
  return (
    <section className="long" ref={scroll} tabIndex={0} aria-label={label}>
      <ul style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((row) => (
          <li
            key={row.index}
            ref={virtual.measureElement}
            data-index={row.index}
            aria-setsize={items.length}
            aria-posinset={row.index + 1}
            style={{ transform: `translateY(${row.start}px)` }}
          >
            {children(items[row.index] as T)}
          </li>
        ))}
      </ul>
    </section>
  );
}
