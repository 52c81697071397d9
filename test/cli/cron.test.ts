import { describe, expect, test } from "bun:test";
import { type MorningReport, markdownText, morningReport, terminalText } from "../../src/cli/cron/morning.ts";
import { rowsTable, strip } from "../../src/cli/cron/rows.ts";
import { serviceOf } from "../../src/cli/cron/service.ts";
import { distance, instantText, shortTime, triggerText, wallTime } from "../../src/cli/cron/when.ts";
import { styleOf } from "../../src/cli/output/style.ts";
import type { JobInfo, LedgerRow } from "../../src/plugin/index.ts";
import { FakeIo } from "./support.ts";

const NOW = Date.parse("2027-01-05T08:00:00Z");

function row(more: Partial<LedgerRow>): LedgerRow {
  return {
    v: 1,
    job: "nightly",
    job_id: "n",
    due: "2027-01-05T03:00:00.000Z",
    state: "ran",
    reason: null,
    late_ms: 0,
    uuid: "01a20300-0000-7000-8000-000000000001",
    started: "2027-01-05T03:00:00.000Z",
    ended: "2027-01-05T03:05:00.000Z",
    exit_code: 0,
    exit_reason: "completed",
    tokens_used: 1000,
    cost_usd: 0.5,
    attempt: 1,
    result: "\n# Done\nmore",
    ...more,
  };
}

function job(more: Partial<JobInfo>): JobInfo {
  return {
    id: "n",
    name: "nightly",
    project: "/projects/shop",
    trigger: { cron: "0 3 * * *" },
    intent: "x",
    run: {},
    creator: { kind: "user" },
    state: "enabled",
    reason: null,
    created_at: "2027-01-01T00:00:00.000Z",
    next_at: null,
    last: null,
    ...more,
  };
}

function report(): MorningReport {
  return morningReport({
    since_ms: NOW - 14 * 3_600_000,
    now_ms: NOW,
    jobs: [
      job({}),
      job({ id: "b", name: "backup", state: "blocked", reason: "OPENAI_API_KEY is not set" }),
      job({ id: "s", name: "sync", expect_every: "1d" }),
    ],
    rows: [
      row({ due: "2027-01-05T01:00:00.000Z" }),
      row({ due: "2027-01-05T02:00:00.000Z", state: "failed", reason: "the check failed", cost_usd: null }),
      row({}),
      row({ job: "bad", job_id: "x", state: "failed", reason: "**evil** <b>", uuid: null }),
      row({
        job: "gone",
        job_id: "g",
        state: "missed",
        count: 3,
        uuid: null,
        tokens_used: 0,
        cost_usd: null,
      }),
    ],
    runs: [
      {
        uuid: "01a20300-0000-7000-8000-000000000009",
        pid: 9,
        agent: "coder",
        project: "/projects/shop",
        intent: "fix it",
        state: "dead",
        exit_code: 1,
        exit_reason: "timeout",
        reason: "The time limit is used up.",
        result: null,
        ended_at_ms: NOW - 60_000,
        tokens_used: 10,
        cost_usd: 0.25,
      },
    ],
    interactive: { runs: 0, failed: 0, tokens_used: 0, cost_usd: null },
    asks: [],
    silent: [{ job_id: "s", last_success: null }],
  });
}

describe("the report of rnix morning", () => {
  test("counts what ran, its cost, and what needs the user; failed jobs come first", () => {
    const made = report();
    expect(made).toMatchObject({
      runs: { done: 2, failed: 3, waiting: 0, running: 0 },
      tokens_used: 4010,
      cost_usd: 1.75,
      attention: [
        { job: "backup", state: "blocked", reason: "OPENAI_API_KEY is not set" },
        { job: "sync", state: "silent", reason: "it has never succeeded; expected every 1d" },
      ],
    });
    expect(made.jobs.map(({ job }) => job)).toEqual(["bad", "nightly", "gone"]);
    expect(made.jobs[1]).toMatchObject({ counts: { ran: 2, failed: 1 }, last: { what: "# Done" } });
    expect(made.jobs[2]?.counts).toEqual({ missed: 3 });
  });

  test("is text whose lines fit the terminal", () => {
    const io = new FakeIo();
    const text = terminalText(report(), styleOf(io, { isTTY: false }), 80);
    for (const line of text.split("\n")) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(80);
    expect(text).toContain("FAILED backup (shop) is blocked: OPENAI_API_KEY is not set\n");
    expect(text).toContain("2 ran, 1 failed; $1.00; # Done");
    expect(text).toContain("failed: the check failed");
  });

  test("is Markdown in which text of models is no markup", () => {
    const text = markdownText(report());
    expect(text).toContain("\\*\\*evil\\*\\* \\<b\\>");
    expect(text).toMatch(
      /^Since .*: 2 done, 3 failed, 4\.0k tokens, \$1\.75\n\n## Jobs that need you\n\n- ❌ backup/,
    );
  });

  test("says so where nothing has run", () => {
    const empty = morningReport({
      since_ms: 0,
      now_ms: NOW,
      jobs: [],
      rows: [],
      runs: [],
      interactive: { runs: 0, failed: 0, tokens_used: 0, cost_usd: null },
      asks: [],
      silent: [],
    });
    expect(markdownText(empty)).toContain("Nothing has run.");
    const watched = morningReport({
      ...{ since_ms: 0, now_ms: NOW, jobs: [], rows: [], runs: [], asks: [], silent: [] },
      interactive: { runs: 12, failed: 1, tokens_used: 4000, cost_usd: 0.5 },
    });
    expect(markdownText(watched)).toEndWith(
      "0 done, 4.0k tokens, $0.50\n\n12 runs of yours at a terminal, 1 failed, 4.0k tokens, $0.50\n",
    );
  });
});

test("the rows fit 80 columns, and the strip has a mark for each", () => {
  const io = new FakeIo({ stdoutTTY: true, columns: 80 });
  const rows = [row({ reason: "x".repeat(300) }), row({ state: "skipped", reason: "if: ended with 1" })];
  for (const line of rowsTable(rows, io, { withJob: true }).split("\n"))
    expect(Bun.stringWidth(line)).toBeLessThanOrEqual(80);
  expect(Bun.stripANSI(strip(rows, io, io.stdout))).toBe("✔–  ✔ 1 ran · – 1 skipped");
  io.env.RNIX_ASCII = "1";
  expect(Bun.stripANSI(strip(rows, io, io.stdout))).toBe("+-  + 1 ran, - 1 skipped");
});

test("runs that start in one millisecond have different beginnings, by which rnix log finds each", () => {
  const rows = [0, 0].map(() => row({ uuid: Bun.randomUUIDv7("hex", NOW) }));
  const named = rowsTable(rows, new FakeIo({})).match(/[\da-f]{8}-[\da-f]{4}[-\da-f]*/g);
  expect(new Set(named).size).toBe(2);
});

test("times are shown in the zone that they are given in", () => {
  expect(instantText("2027-01-05T02:00:00.000Z", "Europe/Berlin")).toBe("Tue 2027-01-05 03:00");
  expect(instantText("2027-01-05T02:00:07.000Z", "UTC")).toBe("Tue 2027-01-05 02:00:07");
  expect(wallTime(NOW, "Asia/Tokyo")).toBe("2027-01-05 17:00:00");
  expect(distance("2027-01-05T10:00:00.000Z", NOW)).toBe("in 2h00m");
  expect(distance("2027-01-05T07:59:00.000Z", NOW)).toBe("1m00s ago");
  expect(shortTime("2027-03-01T12:00:00.000Z", NOW)).toBe("2027-03-01");
});

test.each([
  [{ cron: "@daily" }, "@daily"],
  [{ every: "15m" }, "@every 15m"],
  [{ at: "2027-01-05T09:00" }, "at 2027-01-05T09:00"],
  [{ on_change: ["a", "b"] }, "on change of a, b"],
  [{ on_hook: "h" }, "on hook h"],
  [{ after: "j" }, "after j"],
  [{ after: "j", on: "any" as const }, "after j (any)"],
])("the trigger %p is shown as %p", (trigger, text) => {
  expect(triggerText(trigger)).toBe(text);
});

describe("the service of rnix cron install", () => {
  const env = { HOME: "/home/me", PATH: "/usr/bin:/opt/50%$x", XDG_DATA_HOME: "/data" };

  test("of systemd quotes what has a meaning in a unit file", () => {
    const service = serviceOf({ env }, "linux");
    expect(service?.path).toBe("/home/me/.config/systemd/user/rnix.service");
    expect(service?.text).toContain(
      'Environment="PATH=/usr/bin:/opt/50%%$$x"\nEnvironment="XDG_DATA_HOME=/data"\n',
    );
  });

  test("of launchd escapes what has a meaning in XML; other systems have none", () => {
    const service = serviceOf({ env: { ...env, PATH: "/a&b" } }, "darwin");
    expect(service?.path).toBe("/home/me/Library/LaunchAgents/dev.rnix.daemon.plist");
    expect(service?.text).toContain("<key>PATH</key><string>/a&amp;b</string>");
    expect(serviceOf({ env }, "freebsd")).toBeNull();
  });
});
