/** The running language servers: started at their first use, shared, restarted within limits, ended when idle. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import { LanguageServer } from "./language-server.ts";
import type { ServerKind } from "./servers.ts";

/** The kernel ends a program that had no call for this time. */
const IDLE_MS = 10 * 60_000;
/** Failures in a row; an answer resets the count. */
export const MAX_FAILURES = 3;
/** Before the restart after the first failure; doubled after each. */
const BACKOFF_MS = 1_000;

/** The server of one workspace. */
class Slot {
  server: LanguageServer | undefined;
  starting: Promise<LanguageServer> | undefined;
  failures = 0;
  starts = 0;
  /** On the clock of the pool. */
  notBefore = 0;
  lastFailure = "";
}

export class ServerPool {
  readonly #slots = new Map<string, Slot>();
  readonly #now: () => number;

  /** `now`: milliseconds of a clock that never falls back. */
  constructor(now: () => number) {
    this.#now = now;
  }

  running(kind: ServerKind, root: string, context: OpenContext): LanguageServer | undefined {
    const server = this.#slots.get(keyOf(kind, root, context))?.server;
    return server?.end === undefined ? server : undefined;
  }

  /** The server of a workspace, running. `use` counts this call as its user until the call ends. */
  async use(
    kind: ServerKind,
    root: string,
    context: OpenContext,
    signal: AbortSignal,
  ): Promise<LanguageServer> {
    const key = keyOf(kind, root, context);
    const slot = this.#slots.get(key) ?? new Slot();
    this.#slots.set(key, slot);
    slot.starting ??= this.#opened(slot, key, kind, root, context, signal).finally(() => {
      slot.starting = undefined;
    });
    return await slot.starting;
  }

  /** A server that answered has recovered. */
  succeeded(server: LanguageServer): void {
    for (const slot of this.#slots.values()) if (slot.server === server) slot.failures = 0;
  }

  async #opened(
    slot: Slot,
    key: string,
    kind: ServerKind,
    root: string,
    context: OpenContext,
    signal: AbortSignal,
  ): Promise<LanguageServer> {
    const { server } = slot;
    if (server?.end !== undefined) {
      // Idle servers are ended by a signal, which is no failure.
      if (server.end.signal === null)
        this.#failed(slot, `it ended with exit code ${server.end.code}. ${server.end.stderr}`);
      slot.server = undefined;
    }
    if (slot.failures >= MAX_FAILURES && this.#now() >= slot.notBefore) slot.failures = MAX_FAILURES - 1;
    if (slot.failures >= MAX_FAILURES || this.#now() < slot.notBefore)
      throw new SyscallError(
        "UNAVAILABLE",
        `${kind.name} failed ${slot.failures} times: ${slot.lastFailure} It is started again in ${Math.ceil((slot.notBefore - this.#now()) / 1_000)} s.`,
        { retryAfterMs: Math.max(0, slot.notBefore - this.#now()) },
      );
    const child = await started(kind, root, key, context);
    if (slot.server !== undefined && child.reused) return slot.server;
    context.progress(`starting ${kind.name}`);
    const fresh = new LanguageServer(kind, root, child, slot.starts++);
    try {
      await fresh.start(signal);
    } catch (thrown) {
      await child.kill();
      this.#failed(slot, thrown instanceof Error ? thrown.message : String(thrown));
      throw thrown;
    }
    slot.server = fresh;
    return fresh;
  }

  #failed(slot: Slot, why: string): void {
    slot.failures += 1;
    slot.lastFailure = why;
    slot.notBefore = this.#now() + BACKOFF_MS * 2 ** (slot.failures - 1);
  }
}

function keyOf(kind: ServerKind, root: string, { project, policy }: OpenContext): string {
  return JSON.stringify([project.id, root, kind.name, kind.command, policy]);
}

async function started(kind: ServerKind, root: string, key: string, { exec }: OpenContext) {
  if (!exec) throw new SyscallError("UNAVAILABLE", "No programs can be started here (no exec service).");
  try {
    const life = { shared: `lsp ${key}`, idleMs: IDLE_MS };
    return await exec({ argv: [...kind.command], cwd: root, stdin: "pipe", life });
  } catch (thrown) {
    if (!(thrown instanceof SyscallError) || thrown.code !== "NOT_FOUND") throw thrown;
    const message = `${kind.command[0]} is not installed. The user can install it: ${kind.install}`;
    throw new SyscallError("UNAVAILABLE", message, { cause: thrown });
  }
}
