import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { RedactingFile } from "../../kernel/files/redacting-file.ts";
import { ModelGate } from "../../kernel/llm/model-gate.ts";
import { Secrets } from "../../kernel/process/secrets.ts";
import type { ProviderChoice } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Children } from "../../os/children.ts";
import { O_RDWR, type OpenContext, SyscallError, type VFSFile } from "../../plugin/index.ts";
import type { Namespace } from "../../vfs/namespace.ts";

/** The deadline of the whole answer: the user waits for the list. */
const PROBE_MS = 20_000;
/** Enough for a model that thinks before it says "OK". */
const MAX_OUTPUT = 512;

interface ProbePorts {
  clock: Clock;
  children: Pick<Children, "exec" | "endOwner">;
}

type ProbePlace = Pick<OpenContext, "project" | "cwd" | "env">;

/** Asks a provider's model for one word, as PID 0. Throws the error that a run would end with. */
export async function probe(
  choice: ProviderChoice,
  devices: Namespace,
  place: ProbePlace,
  { clock, children }: ProbePorts,
): Promise<void> {
  const { entry, subpath } = devices.resolve(choice.device);
  const secrets = new Secrets();
  const owner = `probe-${Bun.randomUUIDv7()}`;
  const folder = await mkdtemp(join(tmpdir(), "rnix-probe-"));
  const context: OpenContext = {
    ...contextOf(choice, place),
    async secret() {
      const key = await choice.secret();
      secrets.add(key);
      return key;
    },
    exec: ({ cwd = place.cwd, env, ...request }) =>
      children.exec({ uuid: owner, spillDir: folder }, { ...request, cwd, env: { ...place.env, ...env } }),
    async spill(name, data) {
      const file = join(folder, basename(name));
      await writeFile(file, data, { mode: 0o600 });
      return file;
    },
  };
  const once = async (): Promise<void> =>
    ask(choice, new RedactingFile(await entry.device.factory(subpath, O_RDWR, context), secrets), clock);
  try {
    await once().catch(async (thrown) => {
      const refused =
        thrown instanceof SyscallError && thrown.code === "PERMISSION" ? secrets.last : undefined;
      if (refused === undefined || !(await choice.renewSecret?.(refused))) throw thrown;
      await once();
    });
  } finally {
    await children.endOwner(owner);
    await rm(folder, { recursive: true, force: true });
  }
}

async function ask(choice: ProviderChoice, file: VFSFile, clock: Clock): Promise<void> {
  try {
    await new ModelGate({ clock, random: Math.random }).call(
      choice.gateKey,
      file,
      {
        intent: "probe",
        system_prompt: "",
        model: choice.model,
        messages: [{ role: "user", content: "Reply with the word OK." }],
        max_output: MAX_OUTPUT,
        stream: true,
      },
      {
        signal: new AbortController().signal,
        totalMs: PROBE_MS,
        idleMs: PROBE_MS,
        retries: 0,
        onEvent: () => undefined,
        onRetry: () => undefined,
      },
    );
  } finally {
    await file.close();
  }
}

function contextOf(choice: ProviderChoice, place: ProbePlace): Omit<OpenContext, "spill"> {
  return {
    ...place,
    process: { pid: 0, uuid: "", agent: "", depth: 0, attended: false, operator: true },
    folders: [],
    guarded: [],
    config: choice.config,
    tools: { list: async () => [], call: () => Promise.reject(noProcess()) },
    progress: () => undefined,
    changed: () => undefined,
    log: () => undefined,
    inbox: () => Promise.reject(noProcess()),
    // PID 0, which has all rights.
    access: async (paths) => paths.map(() => null),
  };
}

function noProcess(): SyscallError {
  return new SyscallError("UNAVAILABLE", "A probe is no run: there is nothing to keep data beside.");
}
