import { type Child, type ExecRequest, type ExitInfo, SyscallError } from "../../plugin/index.ts";
import { runProgram } from "../files/run-program.ts";
import type { Task } from "../lifetime/process-runner.ts";
import type { Process } from "../process/process.ts";
import type { CommandRequest } from "./spec.ts";

/** Characters of a program's output that its process keeps as its result: the last ones. */
const OUTPUT_KEPT = 16_384;
/** Of these shown with the error. */
const OUTPUT_SHOWN = 1_000;

/**
 * The task of a process that is one program: it lives as long as the program does. `launched` is told as soon
 * as the program runs, or that it could not be started.
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
      proc.result = done.output;
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
  const said = last === "" ? "It printed nothing." : `The last it printed: ${last}`;
  return new SyscallError("DRIVER", `The program \`${argv.join(" ")}\` ${how}. ${said}`);
}
