import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Kernel } from "../../src/kernel/kernel.ts";
import type { Process } from "../../src/kernel/process/process.ts";
import { bareAgent } from "../../src/kernel/process/process-spec.ts";
import type { AgentInfo, PID, SpawnOpts, SyscallEvent } from "../../src/kernel/types.ts";
import { CODES } from "../../src/plugin/index.ts";
import { idle } from "../support/idle.ts";
import { KernelHarness, silent, toolDevice } from "../support/kernel.ts";
import { Mountable } from "../support/mountable.ts";
import { onOneLine, publicMethods, recordedNames } from "./kernel-source.ts";
import { ROOT, type SyscallEntry, syscallDocument } from "./syscall-document.ts";

/** The table of design §2. */
const TABLE: Record<string, string[]> = {
  ProcessManager: ["Spawn", "Kill", "Wait", "ListProcs", "GetPID"],
  ContextManager: ["CtxAlloc", "CtxRead", "CtxWrite", "CtxFree"],
  FileSystem: ["Open", "Read", "Write", "Close", "Stat"],
  Debugger: ["AttachDebug"],
  IpcManager: ["Send", "Recv", "Pipe"],
  MountManager: ["Mount", "Unmount", "UnmountAll"],
  ConcurrencyManager: ["SpawnThread", "JoinThread", "SpawnCoroutine", "ResumeCoroutine"],
  SignalManager: ["Signal", "SigHandle", "SigBlock", "SigUnblock"],
  ProcGroupManager: ["JoinGroup", "LeaveGroup", "GetProcGroup", "SignalGroup"],
  CapabilityManager: ["CapGrant", "CapRevoke"],
  SupervisorManager: ["SpawnSupervisor", "StopSupervisor", "SupervisorChildren", "RestartChild"],
  InitManager: ["InitBoot", "InitStatus"],
  LifecycleManager: ["Checkpoint", "Suspend", "Resume", "Shutdown"],
};
const ALL = Object.values(TABLE).flat();
/** A subscriber leaves no event. */
const UNRECORDED = ["AttachDebug"];
const document = syscallDocument();
const entries = document.interfaces.flatMap(({ syscalls }) => syscalls);
/** The events that it names as no syscalls. */
const OTHERS = (/under names that are no syscalls:([^.]*)\./.exec(document.common)?.[1] ?? "")
  .split(/[\s,]+/)
  .filter((word) =>
    /^(Supervisor[A-Z]|(Compact|TakeBack|Interrupt|SetModel|SetMode|EndChat|Connect)$)/.test(word),
  )
  .sort();

describe("the document", () => {
  test("has the 45 syscalls of the design, each once in its table and as an entry", () => {
    expect(new Set(ALL).size).toBe(45);
    expect(document.table).toEqual(TABLE);
    const described = document.interfaces.map(({ name, syscalls }) => [
      name,
      syscalls.map((one) => one.name),
    ]);
    expect(Object.fromEntries(described)).toEqual(TABLE);
    expect(entries).toHaveLength(45);
  });

  test("names each interface's field of Kernel", async () => {
    await using h = new KernelHarness({ model: silent });
    const fields = new Map(Object.entries(h.kernel).map(([field, part]) => [field, part?.constructor?.name]));
    for (const { name, field } of document.interfaces) {
      expect([field, fields.get(field)]).toEqual([field, name]);
      expect(document.common).toContain(`| [${name}](#${name.toLowerCase()}) | \`${field}\` |`);
    }
  });

  test("has exactly the names that the kernel records", () => {
    const recorded = recordedNames();
    const more = [...recorded].filter((name) => !ALL.includes(name)).sort();
    expect(OTHERS).toEqual(more);
    expect(ALL.filter((name) => !recorded.has(name))).toEqual(UNRECORDED);
  });

  test("has exactly the error codes of the source", () => {
    const meanings = [...document.common.matchAll(/^\| ([A-Z_]+) \| /gm)].map(([, code]) => code);
    expect(meanings).toEqual([...CODES]);
    for (const { name, codes } of entries) {
      expect([name, codes.length]).not.toEqual([name, 0]);
      expect([name, new Set(codes).size]).toEqual([name, codes.length]);
      const none = codes.length === 1 && codes[0] === "–";
      const known: readonly string[] = CODES;
      expect([name, none ? [] : codes.filter((code) => !known.includes(code))]).toEqual([name, []]);
    }
  });

  test("links only to existing targets", async () => {
    for (const [, target = ""] of document.text.matchAll(/\]\(([^)#]+)\)/g)) {
      expect([target, await Bun.file(join(ROOT, "docs", target)).exists()]).toEqual([target, true]);
    }
    const headings = [...document.text.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
      heading.toLowerCase().replaceAll(" ", "-"),
    );
    for (const [, anchor = ""] of document.text.matchAll(/\]\(#([^)]+)\)/g))
      expect(headings).toContain(anchor);
  });
});

describe.each(document.interfaces.map((one) => [one.name, one] as const))("%s", (_name, one) => {
  const methods = publicMethods(one.file);

  test("has the signatures of its class", () => {
    for (const { name, signature } of one.syscalls) {
      expect([name, [...methods.values()]]).toEqual([name, expect.arrayContaining([onOneLine(signature)])]);
    }
  });

  test("has all methods of its class, as a syscall or as another method", () => {
    const syscalls = one.syscalls.map(({ signature }) => /(\w+)\(/.exec(signature)?.[1] ?? "");
    expect([...syscalls, ...one.beside].sort()).toEqual([...methods.keys()].sort());
  });
});

/** The documented result of an example. */
interface World {
  kernel: Kernel;
  proc: Process;
  other: PID;
  agent: AgentInfo;
  opts(): SpawnOpts;
}

const AGENT: AgentInfo = { ...bareAgent("helper"), description: "helps", instructions: "Help." };

describe("the examples", () => {
  const dir = mkdtempSync(join(tmpdir(), "rnix-syscalls-"));
  const program = join(dir, "examples.ts");
  let examples: Record<string, (world: World) => Promise<void>> = {};

  beforeAll(async () => {
    writeFileSync(program, programOf(entries));
    writeFileSync(join(dir, "tsconfig.json"), JSON.stringify(CONFIG));
    ({ examples } = await import(program));
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  test("compile, and the recipe compiles", () => {
    const tsc = Bun.spawnSync([join(ROOT, "node_modules/.bin/tsc"), "-p", dir], { timeout: 110_000 });
    expect(tsc.stdout.toString()).toBe("");
    expect(tsc.exitCode).toBe(0);
  }, 120_000);

  test.each(entries.map((entry) => [entry.name, entry] as const))(
    "%s does what its example shows",
    async (name, entry) => {
      expect(entry.examples).toHaveLength(1);
      const events = await run(examples[name]);
      for (const event of events) fits(event);
      const own = events.filter(({ syscall, error }) => syscall === name && error === undefined);
      expect(own.length > 0).toBe(!UNRECORDED.includes(name));
    },
  );
});

/** Runs an example on a kernel of its own and gives back all that was recorded until then. */
async function run(example: ((world: World) => Promise<void>) | undefined): Promise<SyscallEvent[]> {
  const uuids = new Set<string>();
  const shell = toolDevice("Bash", () => "README.md\n", { subject: "command" });
  await using h = new KernelHarness({
    model: silent,
    devices: { "/dev/shell": shell },
    mounts: [new Mountable("mcp").type],
    callbacks: {
      onSpawn: (pid) => void uuids.add(h.kernel.processes.info(pid).uuid),
    },
  });
  const { kernel } = h;
  const other = await h.spawn("go");
  const proc = await idle(h);
  if (!example) throw new Error("no example");
  await example({ kernel, proc, other, agent: AGENT, opts: () => h.opts() });
  const ofPid0 = [...kernel.debug.ofPid0];
  await kernel.shutdown({ now: true }); // What is still in memory goes to disk with the ends.
  const onDisk = await Promise.all([...uuids].map(async (uuid) => (await h.runs.events(uuid)).records));
  return [...ofPid0, ...onDisk.flat()];
}

/** The event has the arguments that its entry names. */
function fits({ syscall, args }: SyscallEvent): void {
  if (OTHERS.includes(syscall)) return;
  const recorded = entries.find(({ name }) => name === syscall)?.recorded;
  if (!recorded) throw new Error(`${syscall} is recorded and in no entry`);
  const there = Object.keys(args).filter((key) => args[key] !== undefined && key !== "by");
  const known = recorded.map((key) => key.replace("?", ""));
  expect([syscall, there.filter((key) => !known.includes(key))]).toEqual([syscall, []]);
  const always = recorded.filter((key) => !key.endsWith("?"));
  expect([syscall, always.filter((key) => !there.includes(key))]).toEqual([syscall, []]);
}

const CONFIG = {
  extends: join(ROOT, "tsconfig.json"),
  compilerOptions: {
    typeRoots: [join(ROOT, "node_modules")],
    // What an example is given, and what it gets, it need not use.
    noUnusedLocals: false,
    noUnusedParameters: false,
  },
  include: ["examples.ts"],
};

/** All examples as one program. */
function programOf(all: readonly SyscallEntry[]): string {
  const given = "{ kernel, proc, other, agent, opts }: World";
  const bodies = all.map(
    ({ name, examples }) => `${name}: async (${given}) => {\n${examples.join("\n")}\n},`,
  );
  const prelude = document.prelude.replaceAll(`from "../src/`, `from "${ROOT}/src/`);
  return [prelude, document.recipe, "export const examples = {", ...bodies, "};", ""].join("\n");
}
