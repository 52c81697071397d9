/** Runs the script of a workflow in a Worker of its own, and answers what it asks. */

import { onceAborted } from "../lib/clock.ts";
import { SyscallError } from "../plugin/errors.ts";
import { type AgentCall, FromScript, type TokenBudget, type ToScript } from "./messages.ts";
import { bodyOf, type WorkflowScript } from "./script.ts";

declare const RNIX_WORKFLOW_WORKER: string | undefined;

const WORKER =
  typeof RNIX_WORKFLOW_WORKER === "string"
    ? RNIX_WORKFLOW_WORKER
    : new URL("./worker.ts", import.meta.url).href;

/** An agent that did not complete, as `agent()` throws it. `receipt`: what the script may read of its end. */
export class AgentFailed extends Error {
  readonly receipt: Record<string, unknown>;

  constructor(message: string, receipt: Record<string, unknown>) {
    super(message);
    this.receipt = receipt;
  }
}

/** What a script reaches outside of it. */
export interface ScriptHost {
  /** Runs an agent to its end. Throws AgentFailed, or a SyscallError for a request that can't be met. */
  agent(call: AgentCall): Promise<unknown>;
  phase(name: string): void;
  log(text: string): void;
  budget(): TokenBudget;
}

/**
 * Runs the script to its end and returns its value. Fails with DRIVER when the script throws or can't go on, with its
 * place, and with the signal's reason on abort. Nothing of it runs on after that; agents are their run's.
 */
export async function runScript(
  script: WorkflowScript,
  host: ScriptHost,
  signal: AbortSignal,
): Promise<unknown> {
  signal.throwIfAborted();
  const body = bodyOf(script);
  const worker = new Worker(WORKER, { env: {}, ref: false, name: `workflow ${script.name}` });
  const send = (message: ToScript): void => worker.postMessage(message);
  const ended = Promise.withResolvers<unknown>();
  const ignore = onceAborted(signal, () => ended.reject(signal.reason));
  const answer = async (call: AgentCall): Promise<void> => {
    const { id } = call;
    try {
      const value = await host.agent(call);
      send({ t: "answer", id, value, budget: host.budget() });
    } catch (thrown) {
      if (thrown instanceof AgentFailed || thrown instanceof SyscallError) {
        const receipt = thrown instanceof AgentFailed ? thrown.receipt : undefined;
        send({ t: "error", id, message: thrown.message, receipt, budget: host.budget() });
      } else ended.reject(thrown);
    }
  };
  worker.onmessage = ({ data }: MessageEvent<unknown>) => {
    const { data: message, error } = FromScript.safeParse(data);
    if (error)
      return ended.reject(failure(script, { message: "the script threw something that is no error" }));
    switch (message.t) {
      case "agent":
        return void answer(message);
      case "phase":
        return host.phase(message.name);
      case "log":
        return host.log(message.text);
      case "done":
        return ended.resolve(message.value);
      case "failed":
        return ended.reject(failure(script, message));
    }
  };
  worker.onerror = ({ message }) => ended.reject(failure(script, { message }));
  try {
    send({ t: "run", name: script.name, body, args: script.args, budget: host.budget() });
    return await ended.promise;
  } finally {
    ignore();
    worker.terminate();
  }
}

/** `stack`: as QuickJS prints it; the first place in the script counts. */
function failure(
  { name }: WorkflowScript,
  { message, stack }: { message: string; stack?: string },
): SyscallError {
  const place = stack?.match(/\(([^()]+:\d+)(?::\d+)?\)|at ([^\s()]+:\d+)/);
  const at = place?.[1] ?? place?.[2];
  if (message === "interrupted") message = "it computed for more than 5 s without waiting for an agent";
  return new SyscallError("DRIVER", `${at?.startsWith(name) ? at : name}: ${message}`);
}
