import { expect, test } from "bun:test";
import { realClock } from "../../src/lib/clock.ts";
import { Output } from "../../src/os/output.ts";
import { RunningChild } from "../../src/os/running-child.ts";
import type { ByteReader, Spawned } from "../../src/os/spawn.ts";
import { until } from "../support/until.ts";
import { Bench } from "./support.ts";

/** Of a program that has ended: its output is in its pipe, and comes when the test releases it. */
class LatePipe implements ByteReader {
  looks = 0;
  readonly #pieces = ["first ", "last", null];
  #next = Promise.withResolvers<void>();

  come(): void {
    this.#next.resolve();
  }

  async read(): Promise<{ done: boolean; value?: Uint8Array }> {
    await this.#next.promise;
    this.#next = Promise.withResolvers();
    const piece = this.#pieces.shift();
    return typeof piece === "string" ? { done: false, value: Buffer.from(piece) } : { done: true };
  }

  async cancel(): Promise<void> {
    this.#pieces.length = 0;
    this.come();
  }

  hasUnread(): boolean {
    this.looks++;
    return this.#pieces.length > 0;
  }
}

test("what a program has printed is taken whole, however late the thread comes to it", async () => {
  await using bench = new Bench();
  const pipe = new LatePipe();
  const unusedPid = 2 ** 22 + 1;
  const spawned: Spawned = {
    pid: unusedPid,
    exited: Promise.resolve({ code: 0, signal: null }),
    streams: [{ fd: 1, reader: pipe }],
    terminalClosed: Promise.resolve(),
    stdin: null,
    pipes: [],
    outputs: [],
    release: () => {},
  };
  const limits = { memoryBytes: 1_000, diskBytes: 1_000, readerMs: 60_000 };
  const child = new RunningChild(spawned, {
    id: "late",
    mark: null,
    output: new Output(`${bench.spillDir}/output.log`, limits, () => {}),
    table: { find: async () => null, members: async () => new Map(), boot: () => "" },
    graceMs: 0,
    quietMs: 1,
    timeoutMs: undefined,
    clock: realClock,
    orphans: () => null,
    killAsFound: () => [],
    onFault: (fault) => bench.faults.push(fault),
  });
  const ended = child.exited();
  for (const looks of [3, 6, 9]) {
    await until(() => pipe.looks >= looks, "a look into its pipe");
    pipe.come();
  }
  expect(await ended).toMatchObject({ code: 0, outputBytes: "first last".length });
  expect(await child.gone).toBe(true);
  expect(bench.faults).toEqual([]);
});
