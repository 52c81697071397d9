import { SyscallError } from "../../plugin/index.ts";
import type { Debugger } from "../debugger.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { AppliedCompaction, PID } from "../types.ts";

/** Has the conversation of a live process compacted on a person's word. */
export class ManualCompaction {
  readonly #ports: { table: ProcessTable; debug: Debugger };

  constructor(ports: { table: ProcessTable; debug: Debugger }) {
    this.#ports = ports;
  }

  /**
   * Before its next step; resolves when that is done. NOT_FOUND when there is no such process, INVALID for one that
   * is paused, has ended or is no agent, CLOSED when it ends before it comes to another step.
   */
  compact(pid: PID): Promise<AppliedCompaction> {
    const { table, debug } = this.#ports;
    return debug.awaitByPid0(
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
  if (proc.spec.kind !== "agent") throw refused(`PID ${pid} is no agent: it has no conversation.`);
  if (proc.exit || proc.stopped) throw refused(`PID ${pid} has ended: there is nothing to compact any more.`);
  if (proc.paused) {
    throw refused(`PID ${pid} is paused and comes to no step: \`rnix continue ${pid}\` has it go on.`);
  }
  proc.compacting ??= Promise.withResolvers();
  const ended = proc.done.then(({ reason }): never => {
    throw new SyscallError("CLOSED", `PID ${pid} has ended (${reason}) before it came to another step.`, {
      pid,
    });
  });
  return Promise.race([proc.compacting.promise, ended]);
}

function refused(message: string): SyscallError {
  return new SyscallError("INVALID", message);
}
