/** The syscalls of a run, in order, with filters. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { PageAnswer } from "../server/dashboard/page-methods.ts";
import { read } from "./page-api.ts";
import { useAttempt } from "./page-read.ts";
import { Rows } from "./rows.tsx";
import { Select } from "./select.tsx";
import { Text } from "./text-block.tsx";

const PAGE = 2_000;

type Syscall = PageAnswer<"list_events">["events"][number];

interface Numbered extends Syscall {
  at: number;
  text: string;
}

export function Trace({ uuid }: { uuid: string }) {
  const all = useSignal<readonly Numbered[]>([]);
  /** Where the next page begins; null: there is no more now. */
  const next = useSignal<number | null>(0);
  const name = useSignal("");
  const words = useSignal("");
  const failed = useSignal(false);
  const slow = useSignal(0);
  const opened = useSignal<Numbered | null>(null);
  const { problem, attempt } = useAttempt();
  const more = (): void => {
    const after = next.value ?? 0;
    attempt(
      read("list_events", { uuid, after, limit: PAGE }).then((page) => {
        const at = all.value.length;
        const found = page.events.map((one, i) => ({ ...one, at: at + i, text: JSON.stringify(one.args) }));
        all.value = [...all.value, ...found];
        next.value = page.events.length < PAGE ? null : page.next;
      }),
    );
  };
  useEffect(more, [uuid]);
  const names = useComputed(() => [...new Set(all.value.map(({ syscall }) => syscall))].sort());
  const shown = useComputed(() =>
    all.value.filter(
      (one) =>
        (name.value === "" || one.syscall === name.value) &&
        (!failed.value || one.error !== undefined) &&
        one.duration_ms >= slow.value &&
        (words.value === "" || one.text.includes(words.value)),
    ),
  );
  return (
    <section aria-label="Syscalls">
      <form class="actions" onSubmit={(event) => event.preventDefault()}>
        <Select
          label="Syscall"
          value={name.value}
          options={[["", "any"], ...names.value]}
          pick={(value) => (name.value = value)}
        />
        <label>
          With <input value={words} onInput={({ currentTarget }) => (words.value = currentTarget.value)} />
        </label>
        <Select
          label="From"
          value={slow.value}
          options={[0, 10, 100, 1000].map((ms) => [ms, `${ms} ms`] as const)}
          pick={(value) => (slow.value = Number(value))}
        />
        <label>
          <input
            type="checkbox"
            checked={failed}
            onChange={({ currentTarget }) => (failed.value = currentTarget.checked)}
          />{" "}
          failed
        </label>
        <span role="status">
          {shown.value.length} of {all.value.length}
        </span>
        {next.value !== null && all.value.length > 0 && (
          <button type="button" onClick={more}>
            Load more
          </button>
        )}
      </form>
      {problem.value !== "" && <p role="alert">{problem}</p>}
      <Rows
        items={shown.value}
        keyOf={({ at }) => at}
        row={(one) => (
          <button
            type="button"
            class={`line ${one.error === undefined ? "" : "failed"}`}
            aria-expanded={opened.value === one}
            onClick={() => (opened.value = opened.value === one ? null : one)}
          >
            <span class="step">{(one.timestamp_ms / 1000).toFixed(3)}</span>
            <span class="did">
              {one.syscall} {one.text}
            </span>
            <span class="took">{one.duration_ms.toFixed(1)} ms</span>
          </button>
        )}
      />
      {opened.value && <Text title={opened.value.syscall} text={JSON.stringify(opened.value, null, 2)} />}
    </section>
  );
}
