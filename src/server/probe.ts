import type { Clock } from "../kernel/clock.ts";
import { ModelGate } from "../kernel/llm/gate.ts";
import type { ProviderChoice } from "../kernel/types.ts";
import { O_RDWR, type OpenContext, SyscallError } from "../plugin/index.ts";
import type { Namespace } from "../vfs/namespace.ts";

/** For the whole answer: somebody sits and waits for the list. */
const PROBE_MS = 20_000;
/** Enough for a model that thinks before it says "OK". */
const MAX_OUTPUT = 512;

type ProbePlace = Pick<OpenContext, "project" | "cwd" | "env">;

/** Asks a provider's model for one word, in the name of PID 0. Throws what a run would end with. */
export async function probe(
  choice: ProviderChoice,
  devices: Namespace,
  place: ProbePlace,
  clock: Clock,
): Promise<void> {
  const { entry, subpath } = devices.resolve(choice.device);
  const file = await entry.device.factory(subpath, O_RDWR, contextOf(choice, place));
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

function contextOf(choice: ProviderChoice, place: ProbePlace): OpenContext {
  return {
    ...place,
    process: { pid: 0, uuid: "", agent: "", depth: 0, attended: false, operator: true },
    folders: [],
    guarded: [],
    config: choice.config,
    secret: choice.secret,
    progress: () => undefined,
    changed: () => undefined,
    log: () => undefined,
    spill: () => Promise.reject(nothingKept()),
    inbox: () => Promise.reject(nothingKept()),
  };
}

function nothingKept(): SyscallError {
  return new SyscallError("UNAVAILABLE", "A probe is no run: there is nothing to keep data beside.");
}
