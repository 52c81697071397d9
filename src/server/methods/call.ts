/** The method call: a call of a tool or a path without a model. */

import { z } from "zod";
import type { DirectCall, DirectResult } from "../../kernel/lifetime/direct-calls.ts";
import { type Data, SyscallError } from "../../plugin/index.ts";
import type { CallWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { trustFromInside } from "../plan/refuse-spawn.ts";
import { method } from "./method.ts";

const CallRequest = () =>
  ProjectRequest().extend({
    tool: z.string().min(1).optional(),
    path: z.string().min(1).optional(),
    /** An object for a tool, or the text to write to a path. */
    input: z.union([z.string(), z.record(z.string(), z.unknown())]).optional(),
    /** Trusts everything of the project, for this call alone. */
    trust: z.boolean().optional(),
  });

/**
 * Makes one call of a tool or a path without a model. PID 0 makes it in the caller's project. For a program inside a
 * run, the run's process makes it with its own rights. A failed call is an answer; a call that can't be made throws.
 */
export const call = method({
  payload: CallRequest,
  watchesClient: true,
  async handle(payload, { kernel, planCall }, caller): Promise<CallWire> {
    const wanted = callOf(payload);
    const unit = caller.unit() ?? payload.env?.RNIX_UNIT;
    if (unit !== undefined) {
      if (payload.trust) throw trustFromInside();
      return wire(wanted, await kernel.calls.callBy(unit, wanted, caller.gone), []);
    }
    const { opts, notices } = await planCall(payload);
    try {
      return wire(wanted, await kernel.calls.call(wanted, opts, caller.gone), notices);
    } catch (thrown) {
      // A plugin that is left out may have had the tool.
      if (!(thrown instanceof SyscallError) || thrown.code !== "NOT_FOUND" || notices.length === 0)
        throw thrown;
      throw new SyscallError("NOT_FOUND", [thrown.message, ...notices].join("\n"), { cause: thrown });
    }
  },
});

function callOf({ tool, path, input }: z.infer<ReturnType<typeof CallRequest>>): DirectCall {
  if (tool !== undefined && path === undefined) {
    if (typeof input === "string") {
      throw new SyscallError(
        "INVALID",
        `input: expected an object, got the text ${JSON.stringify(input.slice(0, 100))}.`,
      );
    }
    return { tool, input: input ?? {} };
  }
  if (path !== undefined && tool === undefined) {
    return { path, input: typeof input === "object" ? JSON.stringify(input) : input };
  }
  throw new SyscallError("INVALID", "Expected a tool or a path, and not both.");
}

function wire(wanted: DirectCall, made: DirectResult, notices: readonly string[]): CallWire {
  const { name, path, state, result, truncated, error, startedAt, durationMs } = made;
  return {
    name,
    path,
    input: wanted.input ?? null,
    state,
    ...encoded(result),
    truncated,
    error: error?.message ?? null,
    error_code: error?.code ?? null,
    started_at: new Date(startedAt).toISOString(),
    duration_ms: durationMs,
    notices: [...notices],
  };
}

/** Bytes that are not text are sent in base64. */
function encoded(result: Data | null): Pick<CallWire, "result" | "encoding"> {
  if (result === null || typeof result === "string") return { result, encoding: "utf8" };
  try {
    return {
      result: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(result),
      encoding: "utf8",
    };
  } catch (thrown) {
    if (!(thrown instanceof TypeError)) throw thrown;
    return { result: Buffer.from(result).toString("base64"), encoding: "base64" };
  }
}
