/** A long list of which only the rows in view are mounted. All rows are of one height, so nothing is measured. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** Of a row, in CSS pixels, as in style.css. */
const ROW = 34;
/** Rows beyond the window that are mounted. */
const MORE = 10;

interface RowsProps<T> {
  items: readonly T[];
  keyOf(item: T): string | number;
  row(item: T): ComponentChildren;
  /** Open at the end, and stay there while rows are added. */
  fromEnd?: boolean;
  /** The height of a row, where it is not the usual one. */
  height?: number;
}

export function Rows<T>({ items, keyOf, row, fromEnd, height = ROW }: RowsProps<T>) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const view = useSignal(600);
  const atEnd = useRef(fromEnd === true);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    view.value = element.clientHeight;
    if (atEnd.current) element.scrollTop = element.scrollHeight;
  }, [items.length]);
  const first = Math.max(0, Math.floor(top.value / height) - MORE);
  const last = Math.min(items.length, Math.ceil((top.value + view.value) / height) + MORE);
  return (
    <div
      class="steps"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls by keys.
      tabIndex={0}
      ref={box}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        top.value = scrollTop;
        view.value = clientHeight;
        atEnd.current = fromEnd === true && scrollTop + clientHeight > scrollHeight - height;
      }}
    >
      <ol style={{ height: `${items.length * height}px` }}>
        {items.slice(first, last).map((item, i) => (
          <li key={keyOf(item)} style={{ top: `${(first + i) * height}px`, height: `${height}px` }}>
            {row(item)}
          </li>
        ))}
      </ol>
    </div>
  );
}
