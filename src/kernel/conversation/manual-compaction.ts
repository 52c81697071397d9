/** Compacts a conversation when the user asks for it. */

import { SyscallError } from "../../plugin/index.ts";
import type { Debugger } from "../debugger.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { AppliedCompaction, PID } from "../types.ts";

/** Compacts the conversation of a live process on the user's request. */
export class ManualCompaction {
  readonly #ports: { table: ProcessTable; debug: Debugger };

  constructor(ports: { table: ProcessTable; debug: Debugger }) {
    this.#ports = ports;
  }

  /**
   * Compacts before the next step, in a chat that waits for a message now. Resolves when that is done. Fails with NOT_FOUND if there is no such process,
   * INVALID if it is paused, has ended or is not an agent, and CLOSED if it ends before another step.
   */
  compact(pid: PID): Promise<AppliedCompaction> {
    const { table, debug } = this.#ports;
    return debug.callFor(
      undefined,
      table.find(pid),
      "Compact",
      { pid },
      () => made(table.get(pid)),
      ({ tokensBefore, tokensAfter }) => ({ tokens_before: tokensBefore, tokens_after: tokensAfter }),
    );
  }
}

async function made(proc: Process): Promise<AppliedCompaction> {
  const { pid } = proc;
  if (proc.spec.kind !== "agent") throw refused(`PID ${pid} is not an agent: it has no conversation.`);
  if (proc.exit || proc.stopped) throw refused(`PID ${pid} has ended: there is no conversation to compact.`);
  if (proc.paused) {
    throw refused(`PID ${pid} is paused. Continue it first: \`rnix continue ${pid}\`.`);
  }
  proc.compacting ??= Promise.withResolvers();
  proc.onRequest?.();
  const ended = proc.done.then(({ reason }): never => {
    throw new SyscallError("CLOSED", `PID ${pid} ended (${reason}) before its next step.`, {
      pid,
    });
  });
  return Promise.race([proc.compacting.promise, ended]);
}

function refused(message: string): SyscallError {
  return new SyscallError("INVALID", message);
}
