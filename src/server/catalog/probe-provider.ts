/** Asks a provider for its models, or a model for an answer. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { z } from "zod";
import { costOf } from "../../kernel/budget/call-budget.ts";
import { RedactingFile } from "../../kernel/files/file-grants.ts";
import { ModelGate } from "../../kernel/llm/model-gate.ts";
import { NO_RETRY } from "../../kernel/llm/retry.ts";
import { Secrets } from "../../kernel/process/secrets.ts";
import type { ProviderChoice } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/duration.ts";
import type { Children } from "../../os/children.ts";
import {
  type ListedModel,
  type ModelListRequest,
  O_RDWR,
  type OpenContext,
  SyscallError,
  type Usage,
  type VFSFile,
} from "../../plugin/index.ts";
import type { Namespace } from "../../vfs/namespace.ts";

/** How long a run's plan waits for the list of a server of the user's own. */
export const LIST_WAIT_MS = 3000;
/** The deadline of the whole answer: the user waits for the list. */
const PROBE_MS = 20_000;
const MAX_READ = 1024 ** 2;
/** Enough for a model that thinks before it says "OK". */
const MAX_OUTPUT = 512;

interface ProbePorts {
  clock: Clock;
  children: Pick<Children, "exec" | "endOwner">;
}

type ProbePlace = Pick<OpenContext, "project" | "cwd" | "env">;

interface ProbeAnswer {
  text: string;
  usage: Usage;
  /** In USD; null: not known. */
  cost: number | null;
}

/** Asks a provider's model for one word, as PID 0. Throws the error that a run would end with. */
export function probe(
  choice: ProviderChoice,
  devices: Namespace,
  place: ProbePlace,
  ports: ProbePorts,
): Promise<ProbeAnswer> {
  return withModelDevice(choice, devices, place, ports, (file) => ask(choice, file, ports.clock));
}

/**
 * Asks a provider's service for its models, as PID 0. Fails as a run would, with NOT_FOUND if the service has no list,
 * and with TIMEOUT after `waitMs`.
 */
export function serviceModels(
  choice: ProviderChoice,
  devices: Namespace,
  place: ProbePlace,
  ports: ProbePorts & { waitMs: number },
): Promise<ListedModel[]> {
  return withModelDevice(choice, devices, place, ports, async (file) => {
    const late = new AbortController();
    const timer = ports.clock.timer(ports.waitMs, () =>
      late.abort(
        new SyscallError(
          "TIMEOUT",
          `${choice.name} sent no list of models within ${formatDuration(ports.waitMs)}`,
        ),
      ),
    );
    try {
      const request: ModelListRequest = { op: "models" };
      await file.write(JSON.stringify(request), late.signal);
      return Listed.parse(JSON.parse(await allOf(file, late.signal))).models;
    } catch (error) {
      if (late.signal.aborted) throw late.signal.reason;
      throw error;
    } finally {
      timer.cancel();
      await file.close();
    }
  });
}

const usd = z.number().min(0);

const Listed = z.lazy(() =>
  z.object({
    models: z.array(
      z.object({
        id: z.string().min(1),
        contextWindow: z.number().positive().optional(),
        maxOutput: z.number().positive().optional(),
        price: z.object({ input: usd, cached: usd, output: usd }).optional(),
      }),
    ),
  }),
);

async function allOf(file: VFSFile, signal: AbortSignal): Promise<string> {
  let text = "";
  for (;;) {
    const piece = await file.read(MAX_READ, signal);
    if (piece.length === 0) return text;
    text += typeof piece === "string" ? piece : new TextDecoder().decode(piece);
  }
}

/** Opens the model's device as PID 0. A refused key is fetched again, once. */
async function withModelDevice<T>(
  choice: ProviderChoice,
  devices: Namespace,
  place: ProbePlace,
  { children }: ProbePorts,
  use: (file: VFSFile) => Promise<T>,
): Promise<T> {
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
  const once = async (): Promise<T> =>
    use(new RedactingFile(await entry.device.factory(subpath, O_RDWR, context), secrets));
  try {
    return await once().catch(async (thrown) => {
      const refused =
        thrown instanceof SyscallError && thrown.code === "PERMISSION" ? secrets.last : undefined;
      if (refused === undefined || !(await choice.renewSecret?.(refused))) throw thrown;
      return once();
    });
  } finally {
    await children.endOwner(owner);
    await rm(folder, { recursive: true, force: true });
  }
}

async function ask(choice: ProviderChoice, file: VFSFile, clock: Clock): Promise<ProbeAnswer> {
  try {
    const { content, usage } = await new ModelGate({ clock, random: Math.random }).call(
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
        clock,
        totalMs: PROBE_MS,
        idleMs: PROBE_MS,
        patienceMs: PROBE_MS,
        provider: choice,
        tree: "",
        observer: { retryLimits: NO_RETRY },
      },
    );
    return { text: content, usage, cost: costOf(usage, choice.price) };
  } finally {
    await file.close();
  }
}

function contextOf(choice: ProviderChoice, place: ProbePlace): Omit<OpenContext, "spill"> {
  return {
    ...place,
    process: { pid: 0, uuid: "", tree: "", agent: "", depth: 0, attended: false, operator: true },
    folders: [],
    guarded: [],
    config: choice.config,
    tools: { list: async () => [], call: () => Promise.reject(noProcess()) },
    progress: () => undefined,
    output: () => undefined,
    checklist: () => undefined,
    changing: async () => undefined,
    changed: () => undefined,
    log: () => undefined,
    inbox: () => Promise.reject(noProcess()),
    // PID 0, which has all rights.
    access: async (paths) => paths.map(() => null),
    connect: async () => null,
  };
}

function noProcess(): SyscallError {
  return new SyscallError("UNAVAILABLE", "A probe is no run: there is nothing to keep data beside.");
}
