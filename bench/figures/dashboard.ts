import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { Machine } from "../../test/e2e/support/machine.ts";
import type { Figure } from "../figure.ts";
import { median } from "../measure.ts";
import type { Place } from "../place.ts";

const STEPS = 10_000;
/** Steps of the run from which the long one is made. */
const RECORDED = 100;
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
      {
        what: `a run of ${STEPS} steps opens on the dashboard, wall`,
        value: of("ms"),
        unit: "ms",
        goal: 300,
      },
      { what: "the same, bytes on the wire", value: of("bytes") / 1024, unit: "KiB", goal: 293 },
      { what: "the same, heap of the page", value: of("heap") / MIB, unit: "MiB", goal: 60 },
      { what: "scrolling through its steps, the longest frame", value: of("frame"), unit: "ms", goal: 50 },
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
  browser.on("Network.loadingFinished", ({ encodedDataLength }) => {
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
