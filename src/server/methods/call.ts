/** The method call: a call of a tool or a path without a model. */

import { z } from "zod";
import type { DirectCall, DirectResult } from "../../kernel/lifetime/direct-calls.ts";
import { type Data, SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { CallWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { trustFromInside } from "../plan/spawn-notices.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { findRun, recordsOf } from "./shared/find-run.ts";

const CallRequest = () =>
  ProjectRequest().extend({
    tool: z.string().min(1).optional(),
    path: z.string().min(1).optional(),
    /** An object for a tool, or the text to write to a path. */
    input: z.union([z.string(), z.record(z.string(), z.unknown())]).optional(),
    /** The run that the call is about: the call reads the data of the run's tree. Refused inside a run. */
    run: Target().optional(),
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
  async handle(payload, services, caller): Promise<CallWire> {
    const { kernel, planCall } = services;
    const wanted = callOf(payload);
    const unit = caller.unit() ?? payload.env?.RNIX_UNIT;
    if (unit !== undefined) {
      if (payload.trust) throw trustFromInside();
      if (payload.run) {
        const message = "Inside a run, a call is about this run and its tree: name no other run.";
        throw new SyscallError("PERMISSION", message);
      }
      return wire(wanted, await kernel.calls.callBy(unit, wanted, caller.gone), []);
    }
    const about = payload.run && (await rootRun(services, payload.run));
    const { opts, notices, path } = await planCall(payload);
    const mounted = "path" in wanted && path !== undefined ? { ...wanted, path } : wanted;
    try {
      return wire(wanted, await kernel.calls.call(mounted, { ...opts, about }, caller.gone), notices);
    } catch (thrown) {
      // A plugin that is left out may have had the tool.
      if (!(thrown instanceof SyscallError) || thrown.code !== "NOT_FOUND" || notices.length === 0)
        throw thrown;
      throw new SyscallError("NOT_FOUND", [thrown.message, ...notices].join("\n"), { cause: thrown });
    }
  },
});

/** The root run of the tree of the run. Damaged records may form a circle. */
async function rootRun(services: Services, target: Target): Promise<{ uuid: string; dir: string }> {
  const found = await findRun(services, target);
  let { info, records } = await recordsOf(services, found);
  for (const passed = new Set([info.uuid]); info.parent_uuid !== null && !passed.has(info.parent_uuid); ) {
    passed.add(info.parent_uuid);
    const parent = await (await services.history()).byUuid(info.parent_uuid);
    if (!parent) break;
    ({ info, records } = parent);
  }
  return { uuid: info.uuid, dir: records.dir(info.uuid) };
}

function callOf({ tool, path, input }: z.infer<ReturnType<typeof CallRequest>>): DirectCall {
  if (tool !== undefined && path === undefined) {
    if (typeof input === "string") {
      const message = `input: expected an object, got the text ${JSON.stringify(input.slice(0, 100))}.`;
      throw new SyscallError("INVALID", message);
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
