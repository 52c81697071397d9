/** The log of a run for clients that attach at each moment of it, and that are cut off and continue. */

import { expect, test } from "bun:test";
import type { StreamEvent } from "../../src/protocol/methods.ts";
import { answer, callEnd, callStart, stepRecord } from "../store/samples.ts";
import { seeded } from "../support/seeded.ts";
import { soak } from "../support/soak.ts";
import { until } from "../support/until.ts";
import { type Fixture, serve } from "./support/fixture.ts";

const STEPS = 6;

type Entry = Extract<StreamEvent, { type: "log_entry" }>["payload"];

/** What is done to the run, in order: steps with calls at once, a compaction, a refused call, a unit, retries. */
function acts({ kernel }: Fixture, pid: number, random: () => number): (() => void)[] {
  const all: (() => void)[] = [];
  for (let step = 1; step <= STEPS; step++) {
    const reasoning = random() < 0.5 ? { reasoning: `thought ${step}` } : {};
    const heard =
      random() < 0.5 ? { inbox: [step], messages: [{ role: "user" as const, content: `go ${step}` }] } : {};
    const first = { ...answer(step, `answer ${step}`), ...reasoning, ...heard };
    all.push(() => kernel.journal(pid, first));
    const ids = ["a", "b", "c"].map((id) => `${id}${step}`);
    const calls = ids.map((id) => ({ ...callEnd(step).call, id, name: "Bash", result: `result ${id}` }));
    for (const id of ids.slice(0, 2))
      all.push(() => kernel.journal(pid, { ...callStart(step), id } as ReturnType<typeof callStart>));
    // The third is refused: it has no start.
    for (const call of calls.toSorted(() => random() - 0.5))
      all.push(() => kernel.journal(pid, { ...callEnd(step), call }));
    if (random() < 0.5) {
      const retry = { attempt: 1, delay_ms: 500, left_ms: 9000, message: "429" };
      all.push(() => kernel.emit(pid, { event: "retry", step, ...retry }));
    }
    const { messages } = stepRecord(step, `answer ${step}`);
    all.push(() =>
      kernel.step(pid, {
        ...stepRecord(step, `answer ${step}`),
        ...reasoning,
        ...(heard.inbox && { inbox: heard.inbox }),
        messages: [...(heard.messages ?? []), ...messages],
        tool_calls: calls,
      }),
    );
  }
  return all;
}

function read(stream: AsyncIterable<StreamEvent> & { close(): void }, most = Number.POSITIVE_INFINITY) {
  const entries: Entry[] = [];
  const ended = (async () => {
    for await (const event of stream) {
      if (event.type === "log_entry") entries.push(event.payload);
      if (entries.length >= most) break;
    }
    stream.close();
  })();
  return { entries, ended };
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}

const recorded = (entries: readonly Entry[]): Entry[] => entries.filter(({ n }) => n !== undefined);

const short = (entries: readonly Entry[]): string[] =>
  recorded(entries).map(({ n, step, kind, text, call }) => `${n} ${step} ${kind} ${call?.id ?? text}`);

for (let seed = 1; seed <= soak(1, 8); seed++) {
  test(`attach_log and attach give each entry once, whenever they begin or are cut (seed ${seed})`, async () => {
    await using server = await serve("memory");
    const random = seeded(seed);
    const { pid, uuid } = await server.detached();
    server.kernel.publish(pid);
    const logs: ReturnType<typeof read>[] = [];
    const cut: Entry[] = [];
    const attached: Entry[] = [];
    const follow = async (method: "attach_log" | "attach", more: { after?: number } = {}) =>
      (await server.client()).open(method, { uuid, ...more });
    for (const act of acts(server, pid, random)) {
      const stream = await follow("attach_log");
      act();
      logs.push(read(stream));
      if (random() < 0.5) await new Promise((resolve) => setImmediate(resolve));
      if (random() < 0.6) continue;
      // A client that gets some entries, is cut off in the middle of them, and continues with the last number.
      for (const [method, got] of [
        ["attach_log", cut],
        ["attach", attached],
      ] as const) {
        const after = got.at(-1)?.n ?? 0;
        const some = read(await follow(method, { after }), 1 + Math.floor(random() * 6));
        // Cut off at its last entry, or wherever it is: the result is the same.
        await Promise.race([some.ended, turns(random() * 100)]);
        got.push(...recorded(some.entries.splice(0)));
      }
    }
    const rest = [
      [cut, read(await follow("attach_log", { after: cut.at(-1)?.n ?? 0 }))],
      [attached, read(await follow("attach", { after: attached.at(-1)?.n ?? 0 }))],
    ] as const;
    await until(() => server.kernel.watchers(pid) >= logs.length);
    await server.kernel.finish(pid, { code: 0, reason: "completed" });
    for (const [got, { entries, ended }] of rest) {
      await ended;
      got.push(...recorded(entries));
    }
    const whole = read(await follow("attach_log"));
    await whole.ended;
    const expected = recorded(whole.entries);
    const numbers = expected.map(({ n }) => n ?? 0);
    expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
    expect(expected.filter(({ kind }) => kind === "result")).toHaveLength(3 * STEPS);
    for (const { entries, ended } of logs) {
      await ended;
      expect(short(entries)).toEqual(short(expected));
      expect(entries.at(-1)?.kind).toBe("end");
    }
    expect(short(cut)).toEqual(short(expected));
    // Messages that are read are sent before they are recorded, without a number.
    const unread = (entries: readonly Entry[]) => short(entries.filter(({ kind }) => kind !== "inbox"));
    expect(unread(attached)).toEqual(unread(expected));
  });
}

test("attach sends a slow client later what of the log did not fit into its queue", async () => {
  await using server = await serve("memory");
  const { pid, uuid } = await server.detached();
  server.kernel.publish(pid);
  const slow = read(await (await server.client()).open("attach", { uuid }));
  const log = read(await (await server.client()).open("attach_log", { uuid }));
  server.kernel.journal(pid, { ...answer(1, "text"), reasoning: "thought" });
  for (let i = 0; i < 1000; i++)
    server.kernel.journal(pid, { ...callEnd(1), call: { ...callEnd(1).call, id: `c${i}` } });
  await server.kernel.finish(pid, { code: 0, reason: "completed" });
  await slow.ended;
  await log.ended;
  expect(slow.entries.map(({ n }) => n)).toEqual(recorded(log.entries).map(({ n }) => n));
  expect(slow.entries).toHaveLength(2002);
});
