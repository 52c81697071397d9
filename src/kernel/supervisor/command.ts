/** The task of a supervised program. */

import { type Child, type ExecRequest, type ExitInfo, SyscallError } from "../../plugin/index.ts";
import { runProgram } from "../files/run-program.ts";
import type { Task } from "../lifetime/process-runner.ts";
import type { Process } from "../process/process.ts";
import type { CommandRequest } from "./spec.ts";

/** The last characters of a program's output are the result of its process. */
const OUTPUT_KEPT = 16_384;
/** Characters of the output in an error message. */
const OUTPUT_SHOWN = 1_000;

/**
 * The task of a process that is one program and lives as long as it does. `launched` settles when the program runs or
 * could not be started.
 */
export function commandTask(
  exec: (proc: Process, request: ExecRequest) => Promise<Child>,
  request: CommandRequest,
  launched: PromiseWithResolvers<void>,
): Task {
  return async (proc) => {
    const launch = async (whole: ExecRequest): Promise<Child> => {
      const child = await exec(proc, whole);
      launched.resolve();
      return child;
    };
    try {
      const done = await runProgram(launch, { ...request, life: "process" }, OUTPUT_KEPT, proc.signal);
      proc.result.text = done.output;
      if (proc.stopped) return { kind: "stopped", status: proc.stopped };
      if (done.exit.code === 0) return { kind: "finished" };
      return { kind: "broken", reason: "failed", error: endedWith(request.argv, done.exit, done.output) };
    } catch (thrown) {
      launched.reject(thrown);
      throw thrown;
    }
  };
}

function endedWith(argv: readonly string[], exit: ExitInfo, output: string): SyscallError {
  const how = exit.code === null ? `was ended by ${exit.signal ?? "a signal"}` : `ended with ${exit.code}`;
  const last = output.trim().slice(-OUTPUT_SHOWN);
  const said = last === "" ? "It printed nothing." : `Its last output: ${last}`;
  return new SyscallError("DRIVER", `The program \`${argv.join(" ")}\` ${how}. ${said}`);
}
