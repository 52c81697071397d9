/** The tool Wake, by which a run waits for a time or a message. */

import { parseDuration } from "../../lib/duration.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { rfc, type ScheduledWakes, type WakeRequest } from "../lifetime/scheduled-wakes.ts";
import type { KernelTool } from "./tool-device.ts";

export function wake(wakes: () => ScheduledWakes): KernelTool {
  return {
    path: "/dev/kernel/wake",
    tool: {
      name: "Wake",
      description:
        "Wait until a time, a message or the report of a background unit, then continue here. Your run is suspended meanwhile: it costs nothing and uses none of its time. Returns the time and why you were woken.",
      input: {
        type: "object",
        properties: {
          in: { type: "string", description: "How long, such as 30s, 10m, 2h or 1d." },
          at: { type: "string", description: "A time with its offset, such as 2027-01-05T09:00:00+01:00." },
          on: {
            enum: ["message", "unit"],
            description:
              "Wake at the next message, or report of a background unit, at the latest at that time.",
          },
        },
        additionalProperties: false,
      },
      // The run waits without limit of the call.
      timeoutMs: Number.POSITIVE_INFINITY,
      defer: true,
      annotations: { idempotentHint: true },
    },
    async run({ proc, input, call, signal }) {
      const waits = wakes();
      const why = await waits.wait(proc, call.id, () => requestOf(input, waits.now()), signal);
      return `${why} It is ${rfc(waits.now())}.`;
    },
  };
}

function requestOf(input: Record<string, unknown>, now: number): WakeRequest {
  const on = input.on === "message" || input.on === "unit" ? input.on : undefined;
  if (typeof input.in === "string" && typeof input.at === "string")
    throw new SyscallError("INVALID", "Wake: expected one of in and at, got both.");
  if (typeof input.in === "string") return { on, at_ms: now + durationOf(input.in) };
  if (typeof input.at === "string") return { on, at_ms: timeOf(input.at, now) };
  if (on) return { on };
  throw new SyscallError("INVALID", 'Wake: expected in, at or on, such as {"in": "10m"}.');
}

/** The shortest wait: a suspension and a resume take a moment. */
const MIN_MS = 1_000;

function durationOf(text: string): number {
  let ms: number;
  try {
    ms = parseDuration(text.trim(), Number.MAX_SAFE_INTEGER);
  } catch (cause) {
    throw new SyscallError("INVALID", `Wake: in: ${messageOf(cause)}`, { cause });
  }
  return Math.max(ms, MIN_MS);
}

const WITH_OFFSET = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/i;

function timeOf(text: string, now: number): number {
  const ms = WITH_OFFSET.test(text.trim()) ? Date.parse(text.trim().replace(" ", "T")) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw new SyscallError(
    "INVALID",
    `Wake: at: expected a time with its offset, such as ${rfc(now + 3_600_000)} or 2027-01-05T09:00:00+01:00, got "${text}". Now it is ${rfc(now)}.`,
  );
}
