import { describe, expect, test } from "bun:test";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { realClock } from "../../../src/lib/clock.ts";
import { deliveryTarget } from "../../../src/lib/delivery-target.ts";
import type { LedgerRow } from "../../../src/plugin/index.ts";
import { deliver } from "../../../src/server/notify/deliver.ts";
import { programsIn } from "../../support/programs.ts";

const LONG = `the whole answer ${"x".repeat(5_000)}`;
const ROW: LedgerRow = {
  v: 1,
  job: "nightly",
  job_id: "id",
  due: "2027-01-05T03:00:00.000Z",
  state: "ran",
  reason: null,
  late_ms: 0,
  uuid: "run-1",
  started: "2027-01-05T03:00:00.100Z",
  ended: "2027-01-05T03:05:00.000Z",
  exit_code: 0,
  exit_reason: "completed",
  tokens_used: 12,
  cost_usd: null,
  attempt: 1,
  result: LONG.slice(0, 2_000),
};

class Bench implements AsyncDisposable {
  readonly dir = mkdtempSync(join(tmpdir(), "rnix-deliver-"));
  readonly #children = programsIn(this.dir);

  send(to: string, row: LedgerRow = ROW): Promise<void> {
    return deliver({ name: row.job, project: this.dir }, row, to, {
      children: this.#children,
      clock: realClock,
      spillDir: this.dir,
      cwd: this.dir,
      env: { PATH: process.env.PATH ?? "" },
      resultOf: async (uuid) => (uuid === "run-1" ? LONG : null),
      closing: new AbortController().signal,
    });
  }

  read(name: string): string {
    return readFileSync(join(this.dir, name), "utf8");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#children.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

test.each([
  ["https://example.com/x", { kind: "url", url: "https://example.com/x" }],
  [">/a/b c.md", { kind: "file", path: "/a/b c.md", append: false }],
  [">> /a/log", { kind: "file", path: "/a/log", append: true }],
  ["/usr/bin/mail -s x me", { kind: "command", command: "/usr/bin/mail -s x me" }],
  ["cat > here", { kind: "command", command: "cat > here" }],
])("%s is read as a target", (to, target) => {
  expect(deliveryTarget(to) as object).toEqual(target);
});

describe("an answer", () => {
  test("reaches a command as JSON on stdin and in its environment, in the project's folder", async () => {
    await using bench = new Bench();
    await bench.send(
      'cat > got.json; echo "$RNIX_JOB $RNIX_JOB_STATE $RNIX_JOB_EXIT_CODE $RNIX_JOB_DUE" > env',
    );
    expect(JSON.parse(bench.read("got.json"))).toMatchObject({
      event: "answer",
      job: "nightly",
      project: bench.dir,
      state: "ran",
      exit_code: 0,
      result: LONG,
    });
    expect(bench.read("env")).toBe(`nightly ran 0 ${ROW.due}\n`);
  });

  test("is not accepted by a command that fails, or an address that answers an error", async () => {
    await using bench = new Bench();
    await expect(bench.send("echo no space >&2; exit 4")).rejects.toThrow("it ended with 4: no space");
    const got: unknown[] = [];
    const server = Bun.serve({
      port: 0,
      async fetch(request) {
        got.push(await request.json());
        return new Response("", { status: got.length === 1 ? 503 : 200 });
      },
    });
    try {
      await expect(bench.send(String(server.url))).rejects.toThrow("it answered 503");
      await bench.send(String(server.url));
      expect(got).toMatchObject([{ result: LONG }, { job: "nightly", result: LONG }]);
    } finally {
      await server.stop(true);
    }
  });

  test("replaces a file, which keeps its mode and stays a link; no other file is left", async () => {
    await using bench = new Bench();
    mkdirSync(join(bench.dir, "real"));
    writeFileSync(join(bench.dir, "real/report.md"), "old");
    chmodSync(join(bench.dir, "real/report.md"), 0o644);
    symlinkSync("real/report.md", join(bench.dir, "report.md"));
    await bench.send(`>${bench.dir}/report.md`);
    expect(bench.read("real/report.md")).toBe(`${LONG}\n`);
    expect(statSync(join(bench.dir, "real/report.md")).mode & 0o777).toBe(0o644);
    expect(readdirSync(join(bench.dir, "real"))).toEqual(["report.md"]);
  });

  test("is not written through a link of the project that leads out of it", async () => {
    await using bench = new Bench();
    await using other = new Bench();
    writeFileSync(join(other.dir, "victim"), "mine");
    symlinkSync(join(other.dir, "victim"), join(bench.dir, "link.md"));
    symlinkSync(other.dir, join(bench.dir, "folder"));
    symlinkSync(join(other.dir, "new"), join(bench.dir, "dangling"));
    symlinkSync("folder/victim", join(bench.dir, "twice"));
    for (const name of ["link.md", "folder/victim", "folder/below/new", "dangling", "twice"]) {
      for (const mark of [">", ">>"])
        expect([name, await bench.send(`${mark}${bench.dir}/${name}`).catch(String)]).toEqual([
          name,
          expect.stringContaining("leads out of the project by a link"),
        ]);
    }
    expect(readdirSync(other.dir)).toEqual(["victim"]);
    expect(other.read("victim")).toBe("mine");
    // A link of the user, outside the project.
    symlinkSync(join(bench.dir, "report.md"), join(other.dir, "mine.md"));
    writeFileSync(join(bench.dir, "report.md"), "");
    await bench.send(`>${other.dir}/mine.md`);
    expect(bench.read("report.md")).toBe(`${LONG}\n`);
  });

  test("is appended to a file, whose folder is made", async () => {
    await using bench = new Bench();
    await bench.send(`>>${bench.dir}/new/log`);
    await bench.send(`>>${bench.dir}/new/log`, {
      ...ROW,
      uuid: null,
      result: undefined,
      state: "failed",
      reason: "the check failed",
    });
    expect(bench.read("new/log")).toBe(`${LONG}\nnightly, ${ROW.due}: failed: the check failed\n`);
  });

  test("replaces the file of a bare path, unless it is a program", async () => {
    await using bench = new Bench();
    await bench.send(`${bench.dir}/answer.md`);
    expect(bench.read("answer.md")).toBe(`${LONG}\n`);
    const program = join(bench.dir, "program");
    writeFileSync(program, "#!/bin/sh\ncat > got\n", { mode: 0o755 });
    await bench.send(program);
    expect(JSON.parse(bench.read("got"))).toMatchObject({ job: "nightly" });
    expect(bench.read("program")).toStartWith("#!/bin/sh");
  });

  test("is not written to a folder", async () => {
    await using bench = new Bench();
    mkdirSync(join(bench.dir, "folder"));
    await expect(bench.send(`>${bench.dir}/folder`)).rejects.toThrow("expected a file");
  });
});
