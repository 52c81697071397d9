import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EventSource, JobEvents } from "../../../src/cron/ports.ts";
import { realClock } from "../../../src/lib/clock.ts";
import type { Children } from "../../../src/os/children.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { Hooks } from "../../../src/server/schedule/hooks.ts";
import { programsIn } from "../../support/programs.ts";
import { until } from "../../support/until.ts";

let dir: string;
let children: Children;
let hooks: Hooks;
let warned: string[];
let source: EventSource;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rnix-hooks-"));
  warned = [];
  children = programsIn(dir);
  hooks = new Hooks({
    children,
    clock: realClock,
    spillDir: dir,
    portFile: join(dir, "user/port"),
    secretOf: () => "secret",
    warn: (text) => void warned.push(text),
  });
});
afterEach(async () => {
  // Its FIFO would make its folder again.
  await source.close();
  hooks.close();
  await children.close();
  rmSync(dir, { recursive: true, force: true });
});

const project = () => ({ id: "p", dir, dataDir: join(dir, "data") });

/** Opens a hook and returns how to post to it. */
async function post(accept: JobEvents["accept"]): Promise<(id: string) => Promise<Response>> {
  source = hooks.open("job", "push", project(), { accept, isLive: () => false });
  await until(() => hooks.addressOf(project(), "push").url !== null, "the address");
  const { url } = hooks.addressOf(project(), "push");
  return (id) =>
    fetch(url ?? "", {
      method: "POST",
      headers: { authorization: "Bearer secret", "x-delivery-id": id },
      body: "the event",
    });
}

function bodies(): string[] {
  return readdirSync(join(dir, "data/cron/hooks")).filter((name) => name.endsWith(".body"));
}

test.each([
  ["EXHAUSTED", 429, "60", 0],
  ["UNAVAILABLE", 503, "5", 0],
  // A fault of the disk: the row may have been written.
  ["INTERNAL", 503, "5", 1],
] as const)(
  "an event that fails with %s is answered with %d and Retry-After",
  async (code, status, seconds, kept) => {
    const send = await post(() => Promise.reject(new SyscallError(code, "not now")));
    const answer = await send("one");
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([status, seconds]);
    expect(await answer.json()).toEqual({ error: "not now" });
    expect(bodies()).toHaveLength(kept);
  },
);

test("the body of an event is kept for its run, and that of a second delivery is not", async () => {
  const seen = new Set<string>();
  const send = await post(async ({ cause = "" }) => {
    const isNew = !seen.has(cause);
    seen.add(cause);
    return isNew;
  });
  expect((await send("one")).status).toBe(202);
  expect(bodies()).toHaveLength(1);
  for (const body of bodies()) rmSync(join(dir, "data/cron/hooks", body));
  expect((await send("one")).status).toBe(200);
  expect(bodies()).toEqual([]);
});

test("a file that can't hold the address is logged, and the hook's FIFO works", async () => {
  mkdirSync(join(dir, "user/port"), { recursive: true });
  const lines: string[] = [];
  source = hooks.open("job", "push", project(), {
    accept: async ({ cause = "" }) => lines.push(cause) > 0,
    isLive: () => false,
  });
  await until(() => warned.length > 0, "the warning");
  expect(warned[0]).toContain("no address for hooks");
  const { fifo } = hooks.addressOf(project(), "push");
  await until(() => existsSync(fifo), "the FIFO");
  // Opening it waits for its reader.
  await writeFile(fifo, "a line\n");
  await until(() => lines.length === 1, "the event");
});
