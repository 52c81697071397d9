/** Decides the sandbox of a run: as requested, as the machine can, and never less than its parent's. */

import type { Agent } from "../../config/agents/agents.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type Sandbox, stricter } from "../../sandbox/level.ts";
import type { SandboxProbe } from "../../sandbox/probe.ts";
import type { PlacedSpawn } from "./request-defaults.ts";

interface SandboxPorts {
  /** What this machine can do. */
  probe(): Promise<SandboxProbe>;
  warn(text: string): void;
}

/** Undefined: none. Fails with UNAVAILABLE where one is required and can't be made. */
export async function chooseSandbox(
  request: PlacedSpawn,
  agent: Agent,
  parent: Sandbox | undefined,
  { probe, warn }: SandboxPorts,
): Promise<Sandbox | undefined> {
  const level = request.sandbox_level ?? agent.sandbox_level ?? "project";
  if (parent) return { ...parent, level: stricter(parent.level, level) };
  const wanted = request.sandbox ?? agent.sandbox ?? "off";
  if (wanted === "off") return undefined;
  const found = await probe();
  if (found.works) return { level, mechanism: found.mechanism, program: found.program };
  if (wanted === "auto") {
    warn(`no sandbox: ${found.why}. To have one, ${found.advice}`);
    return undefined;
  }
  throw new SyscallError(
    "UNAVAILABLE",
    `A sandbox is required, but ${found.why}. To have one: ${found.advice}. Or run it with --sandbox auto where that is acceptable.`,
  );
}

/** The program of such a model has rights of its own. */
export function refuseUnconfined(
  request: Pick<PlacedSpawn, "sandbox">,
  agent: Pick<Agent, "sandbox">,
  parent: Sandbox | undefined,
): undefined {
  if (parent === undefined && (request.sandbox ?? agent.sandbox) !== "required") return undefined;
  throw new SyscallError(
    "UNAVAILABLE",
    "A sandbox is required, and the model's program would work outside of it. Choose another provider, or --sandbox auto.",
  );
}
