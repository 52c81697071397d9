/** Programs the tests start as processes of their own: `bun programs.ts <name> …`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../src/plugin/index.ts";
import { FileLock } from "../../src/store/files/file-lock.ts";
import { realFs } from "../../src/store/files/fs-port.ts";
import { PidAllocator } from "../../src/store/pid-allocator.ts";
import { PluginStore } from "../../src/store/plugin-store.ts";
import { RecordKey } from "../../src/store/runs/record-key.ts";
import { RunStore } from "../../src/store/runs/run-store.ts";
import { openJournal } from "../support/open-journal.ts";
import { procInfo } from "../support/samples.ts";
import { answer, callStart, stepRecord } from "./samples.ts";

const [name = "", first = "", second = "", ...rest] = process.argv.slice(2);

const programs: Record<string, () => unknown> = {
  /** Takes a lock, starts a program that outlives us, and waits to be killed. */
  async holdLock() {
    const lock = FileLock.tryAcquire(first);
    const child = Bun.spawn(["sleep", "60"], {
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      detached: true,
    });
    say(lock ? `held ${child.pid}` : "refused");
    await Bun.stdin.text();
  },

  /** Takes process numbers once its input ends, then ends without giving any back. */
  async takePids() {
    const pids = new PidAllocator(first);
    say("ready");
    await Bun.stdin.text();
    say(Array.from({ length: Number(second) }, () => pids.next()).join(" "));
  },

  /** Adds 1 to the number in a document `times` times, by reading and comparing. */
  async count() {
    const store = new PluginStore({ plugin: "counter", project: first, user: first });
    say("ready");
    await Bun.stdin.text();
    for (let done = 0; done < Number(second); ) {
      const there = await store.read("project", "count");
      try {
        await store.replace("project", "count", String(Number(there?.text ?? 0) + 1), there?.version ?? null);
        await store.append("project", "log", { who: rest[0], n: ++done });
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "INVALID")) throw error;
      }
    }
  },

  /** In each data folder: reads a run, resumes it and begins another. Prints what was refused, and why. */
  async useRuns() {
    for (const dataDir of rest) {
      const store = new RunStore(dataDir, realFs, RecordKey.open(join(dataDir, "record.key")));
      say(JSON.stringify(await refused(useOfRun(store, first, second))));
    }
  },

  /** Opens the key of a user's records, or makes it. */
  makeKey() {
    RecordKey.open(first);
    say(readFileSync(first, "hex"));
  },

  /** Writes steps until it is killed. */
  async writeSteps() {
    const writer = new RunStore(first).create(second);
    writer.info(procInfo({ uuid: second }));
    for (let step = 1; ; step++) {
      writer.journal(answer(step));
      writer.journal(callStart(step));
      if (step % 3 === 0) await writer.sync();
      writer.step(stepRecord(step));
      if (step === 20) say("ready");
    }
  },
};

await programs[name]?.();

function useOfRun(store: RunStore, uuid: string, other: string): Record<string, () => unknown> {
  return {
    info: () => store.info(uuid),
    meta: () => store.meta(uuid),
    steps: () => store.steps(uuid),
    events: () => store.events(uuid),
    journal: () => openJournal(store, uuid),
    inbox: () => store.inbox(uuid),
    survey: () => store.survey(),
    claimant: () => store.claimant(uuid),
    claim: () => store.claim(uuid)?.release({ remove: true }),
    amend: () => store.amend(uuid, (info) => info),
    async write() {
      const writer = await store.reopen(uuid);
      writer.info(procInfo({ uuid }));
      writer.step(stepRecord(2));
      writer.journal(callStart(3));
      await writer.close();
    },
    begin: () => store.create(other).close(),
  };
}

/** The codes of those that fail. */
async function refused(attempts: Record<string, () => unknown>): Promise<Record<string, string>> {
  const codes: Record<string, string> = {};
  for (const [what, attempt] of Object.entries(attempts)) {
    try {
      await attempt();
    } catch (error) {
      codes[what] = error instanceof SyscallError ? error.code : String(error);
    }
  }
  return codes;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
