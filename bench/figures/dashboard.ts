import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { Machine } from "../../test/e2e/support/machine.ts";
import { firstUserMessage } from "../../test/e2e/support/requests.ts";
import { bash, says } from "../../test/e2e/support/scenes.ts";
import { copyRun } from "../copy-run.ts";
import type { Figure } from "../figure.ts";
import { cpuOf, median } from "../measure.ts";
import type { Place } from "../place.ts";

const STEPS = 10_000;
/** Steps of the run from which the long one is made. */
const RECORDED = 100;
const RUNS = 10_000;
const LIVE = 100;
const CHANGES = 5;
const WATCHED_MS = 10_000;
const MIB = 1024 * 1024;

/** A run of 10,000 steps in Debian's Chromium: its opening, its bytes on the wire, the page's heap, and scrolling. */
export async function dashboard(place: Place): Promise<Figure[]> {
  if (Bun.which("chromium") === null) {
    process.stderr.write("dashboard: chromium is not installed\n");
    return [];
  }
  const { launch } = await import("../../test/e2e/dashboard/browser.ts");
  await using machine = new Machine();
  const uuid = await longRun(machine);
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
    await page.goto((await machine.ok(["dashboard", "--no-browser"])).stdout.trim());
    const rounds: Opened[] = [];
    for (let round = 0; round < Math.min(place.rounds, 7); round++) rounds.push(await opened(page, uuid));
    const of = (what: keyof Opened): number => median(rounds.map((one) => one[what]));
    return [
      { what: "the dashboard's page, compressed", value: (await pageBytes()) / 1024, unit: "KiB", goal: 146 },
      {
        what: `a run of ${STEPS} steps opens on the dashboard, wall`,
        value: of("ms"),
        unit: "ms",
        goal: 300,
      },
      { what: "the same, bytes on the wire", value: of("bytes") / 1024, unit: "KiB", goal: 293 },
      { what: "the same, heap of the page", value: of("heap") / MIB, unit: "MiB", goal: 60 },
      { what: "scrolling through its steps, the longest frame", value: of("frame"), unit: "ms", goal: 50 },
      ...(await history(browser)),
      ...(await watching(browser)),
    ];
  } finally {
    await browser.close();
  }
}

interface Opened {
  ms: number;
  bytes: number;
  heap: number;
  frame: number;
}

async function opened(page: Page, uuid: string): Promise<Opened> {
  const browser = await page.context().newCDPSession(page);
  let bytes = 0;
  await browser.send("Network.enable");
  browser.on("Network.dataReceived", ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  await page.getByRole("link", { name: "Now" }).click();
  await page.getByRole("heading", { name: "Now" }).waitFor();
  const ms = Number(
    await page.evaluate(`(async () => {
      const began = performance.now();
      location.hash = "#/run/${uuid}";
      while (!document.querySelector(".steps li")) await new Promise(requestAnimationFrame);
      return performance.now() - began;
    })()`),
  );
  const frame = Number(
    await page.evaluate(`(async () => {
      const box = document.querySelector(".steps");
      if (box.scrollHeight < ${STEPS} * 30) throw new Error("not all steps: " + box.scrollHeight);
      let longest = 0;
      let last = performance.now();
      for (let y = 0; y < box.scrollHeight; y += 3000) {
        box.scrollTop = y;
        const now = await new Promise(requestAnimationFrame);
        longest = Math.max(longest, now - last);
        last = now;
      }
      return longest;
    })()`),
  );
  await browser.send("HeapProfiler.collectGarbage");
  const { usedSize } = await browser.send("Runtime.getHeapUsage");
  await browser.detach();
  return { ms, bytes, heap: usedSize, frame };
}

/** A run whose recorded steps are repeated. Its record is foreign then, which a reader of steps does not mind. */
async function longRun(machine: Machine): Promise<string> {
  await machine.model(({ assistantMessages: turn }) =>
    turn >= RECORDED
      ? { text: "done" }
      : { tool_calls: [{ name: "Bash", input: { command: `echo step ${turn} of many` } }] },
  );
  await machine.ok(["spawn", "long work", "--max-steps", "unlimited"]);
  const steps = join(machine.project, ".rnix/data/steps");
  const [uuid = ""] = readdirSync(steps);
  const file = join(steps, uuid, "steps.jsonl");
  const lines = readFileSync(file, "utf8").split("\n");
  const made = Array.from({ length: STEPS }, (_, i) =>
    (lines[i % RECORDED] ?? "").replace(/"step":\d+/, `"step":${i + 1}`),
  );
  writeFileSync(file, `${made.join("\n")}\n`);
  return uuid;
}

async function pageBytes(): Promise<number> {
  const { buildPage } = await import("../../src/server/dashboard/build-page.ts");
  const files = await buildPage(join(import.meta.dir, "../../src/dashboard"));
  return files.reduce((sum, { text }) => sum + Bun.gzipSync(text).byteLength, 0);
}

async function opens(machine: Machine, browser: Browser): Promise<Page> {
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  await page.goto((await machine.ok(["dashboard", "--no-browser"])).stdout.trim());
  return page;
}

/** The list of 10,000 runs, and a filter of it. */
async function history(browser: Browser): Promise<Figure[]> {
  await using machine = new Machine();
  await machine.play({ work: [says("done")] });
  await machine.ok(["spawn", "work"]);
  copyRun(join(machine.project, ".rnix/data/steps"), RUNS);
  await machine.ok(["ps"]);
  const page = await opens(machine, browser);
  const measured = (script: string): Promise<number> => page.evaluate(script);
  const status = `(document.querySelector("[role=status]")?.textContent ?? "")`;
  const next = "await new Promise(requestAnimationFrame)";
  const opened = await measured(`(async () => {
    const began = performance.now();
    location.hash = "#/history";
    while (!${status}.startsWith("${RUNS} of")) ${next};
    return performance.now() - began;
  })()`);
  const filtered = await measured(`(async () => {
    const times = [];
    for (const [text, wanted] of [["nothing", "0 of"], ["wor", "${RUNS} of"], ["work x", "0 of"], ["", "${RUNS} of"]]) {
      const box = document.querySelector("input[type=search]");
      const began = performance.now();
      box.value = text;
      box.dispatchEvent(new Event("input", { bubbles: true }));
      while (!${status}.startsWith(wanted)) ${next};
      times.push(performance.now() - began);
    }
    return Math.max(...times);
  })()`);
  await page.close();
  return [
    { what: `${RUNS} runs on the dashboard's History, wall`, value: opened, unit: "ms" },
    { what: "a filter of them, the longest", value: filtered, unit: "ms", goal: 100 },
  ];
}

/** What a page costs the daemon that watches live runs, and how soon it shows a change and the end of a kernel. */
async function watching(browser: Browser): Promise<Figure[]> {
  await using machine = new Machine();
  const held = Promise.withResolvers<void>();
  let answered = 0;
  await machine.model(async (request) => {
    const isOne = firstUserMessage(request).startsWith("one");
    if (request.assistantMessages === 0) return bash(isOne ? "true" : "sleep 600");
    answered = Date.now();
    await held.promise;
    return { text: "done" };
  });
  for (let i = 0; i < LIVE; i++) await machine.ok(["spawn", "--detach", `waits ${i}`]);
  const pid = machine.daemonPid ?? 0;
  const used = async (): Promise<number> => {
    await Bun.sleep(2_000);
    const before = cpuOf(pid);
    await Bun.sleep(WATCHED_MS);
    return (cpuOf(pid) - before) / WATCHED_MS;
  };
  const alone = await used();
  const page = await opens(machine, browser);
  await page.getByText(`waits ${LIVE - 1}`, { exact: true }).waitFor();
  const watched = await used();
  const delays: number[] = [];
  for (let i = 0; i < CHANGES; i++) {
    const shown = page.evaluate(`(async () => {
      const row = () => [...document.querySelectorAll(".row")].find((one) => one.textContent.includes("one ${i}"));
      while (!row()?.textContent.includes("step 2")) await new Promise(requestAnimationFrame);
      return Date.now();
    })()`);
    await machine.ok(["spawn", "--detach", `one ${i}`]);
    delays.push(Number(await shown) - answered);
  }
  const other = machine.start(["spawn", "another kernel", "--no-daemon"]);
  const running = page.getByRole("region", { name: "Running" });
  const link = running.getByRole("link", { name: "another kernel" });
  await link.waitFor();
  other.signal("SIGKILL");
  const killed = Date.now();
  await link.waitFor({ state: "detached" });
  const gone = Date.now() - killed;
  await page.close();
  held.resolve();
  return [
    { what: `CPU of a daemon with ${LIVE} live runs, no page`, value: alone * 100, unit: "%" },
    { what: "the same, with a page that watches them", value: watched * 100, unit: "%", goal: 3 },
    { what: "a new step until it is on the page", value: median(delays), unit: "ms", goal: 100 },
    {
      what: "kill -9 of another kernel until its run is not shown as running",
      value: gone,
      unit: "ms",
      goal: 1000,
    },
  ];
}
