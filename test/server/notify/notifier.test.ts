import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { realClock } from "../../../src/lib/clock.ts";
import { loggerTo } from "../../../src/lib/logger.ts";
import { Notifier } from "../../../src/server/notify/notifier.ts";
import { programsIn } from "../../support/programs.ts";
import { until } from "../../support/until.ts";

class Bench implements AsyncDisposable {
  readonly dir = mkdtempSync(join(tmpdir(), "rnix-notify-"));
  readonly logged: string[] = [];
  readonly #children = programsIn(this.dir);
  readonly notifier = new Notifier({
    children: this.#children,
    // The waits between attempts are cut short.
    clock: { ...realClock, timer: (ms, f) => realClock.timer(Math.min(ms, 50), f) },
    spillDir: this.dir,
    env: { PATH: process.env.PATH ?? "" },
    logger: loggerTo((_level, source, text) => this.logged.push(`${source}: ${text}`)),
  });

  async [Symbol.asyncDispose](): Promise<void> {
    await this.notifier.close();
    await this.#children.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

test("a command reads the event on stdin, in the folder that it belongs to", async () => {
  await using bench = new Bench();
  bench.notifier.notify({ target: "cat > got.json", cwd: bench.dir }, { event: "ask", text: "é\n" });
  const file = join(bench.dir, "got.json");
  await until(() => existsSync(file) && readFileSync(file, "utf8").endsWith("}"), "the event");
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ event: "ask", text: "é\n" });
  expect(bench.logged).toEqual([]);
});

test("an address gets the event by POST, is tried three times and no more, and is not followed elsewhere", async () => {
  await using bench = new Bench();
  const got: string[] = [];
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      got.push(`${request.method} ${new URL(request.url).pathname} ${await request.text()}`);
      return new URL(request.url).pathname === "/ok"
        ? new Response("fine")
        : new Response("", { status: 302, headers: { location: "/ok" } });
    },
  });
  try {
    bench.notifier.notify({ target: `${server.url}ok`, cwd: bench.dir }, { n: 1 });
    await until(() => got.length === 1, "the first");
    bench.notifier.notify({ target: `${server.url}moved`, cwd: bench.dir }, { n: 2 });
    await until(() => bench.logged.length === 1, "the failure");
    expect(got).toEqual(['POST /ok {"n":1}', ...Array(3).fill('POST /moved {"n":2}')]);
    expect(bench.logged[0]).toContain("was not notified: it answered 302");
  } finally {
    await server.stop(true);
  }
});

test("a command that fails is logged with its words, and many at once are bounded", async () => {
  await using bench = new Bench();
  bench.notifier.notify({ target: "echo broken >&2; exit 3", cwd: bench.dir }, {});
  await until(() => bench.logged.length === 1, "the failure");
  expect(bench.logged[0]).toContain("was not notified: it ended with 3: broken");
  for (let i = 0; i < 60; i++) bench.notifier.notify({ target: "sleep 1", cwd: bench.dir }, { i });
  expect(bench.logged.filter((line) => line.includes("was dropped"))).toHaveLength(10);
});
