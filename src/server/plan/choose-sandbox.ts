/** Decides the sandbox of a run: as requested, as the machine can, and never less than its parent's. */

import type { Agent } from "../../config/agents/agents.ts";
import type { Settings } from "../../config/settings/settings.ts";
import { SyscallError } from "../../plugin/index.ts";
import { isWhole, type Sandbox, type SandboxLevel, stricter } from "../../sandbox/policy.ts";
import type { SandboxProbe } from "../../sandbox/sandbox.ts";
import type { PlacedSpawn } from "./request-defaults.ts";

interface SandboxPorts {
  /** What this machine can make. */
  probe(): Promise<SandboxProbe>;
  warn(text: string): void;
  /** True for the first time only: a notice about a default is shown once. */
  isFirstNotice(): boolean;
}

const MODES = ["auto", "required", "off"] as const;

export interface WantedSandbox {
  mode: (typeof MODES)[number];
  level: SandboxLevel;
  /** No flag, agent or setting names it. */
  isDefault: boolean;
}

/** A flag counts before the agent, the agent before the settings. */
export function wantedSandbox(
  request: PlacedSpawn,
  agent: Pick<Agent, "sandbox" | "sandbox_level">,
  { words }: Pick<Settings, "words">,
): WantedSandbox {
  const usual = words.sandbox_level === "read-only" ? words.sandbox_level : "project";
  const level = request.sandbox_level ?? agent.sandbox_level ?? usual;
  const mode = request.sandbox ?? agent.sandbox ?? MODES.find((one) => one === words.sandbox);
  if (mode !== undefined) return { mode, level, isDefault: false };
  const isAttended = request.attended && !request.env.CI && request.on_ask !== "deny";
  return { mode: isAttended ? "off" : "auto", level, isDefault: true };
}

/** A child has the sandbox of its parent, or a stricter one. */
interface ParentSandbox {
  confinement?: Sandbox | undefined;
}

interface Grounds {
  request: PlacedSpawn;
  agent: Agent;
  settings: Settings;
  parent: ParentSandbox | undefined;
  notices: string[];
  ports: {
    sandbox: Pick<SandboxPorts, "isFirstNotice"> & { probe(env: PlacedSpawn["env"]): Promise<SandboxProbe> };
  };
  /** Set if the machine is asked already. */
  probing: Promise<SandboxProbe> | undefined;
}

/** Asks the machine for a run that may get a sandbox: that starts a program, and the plan goes on meanwhile. */
export function probeEarly({
  request,
  agent,
  settings,
  parent,
  ports,
}: Omit<Grounds, "notices" | "probing">): Grounds["probing"] {
  if (parent !== undefined || wantedSandbox(request, agent, settings).mode === "off") return undefined;
  const probing = ports.sandbox.probe(request.env);
  // A plan that fails earlier needs no answer.
  probing.catch(() => {});
  return probing;
}

/** The sandbox of a planned run. `isUnconfined`: the model's program works outside of any. */
export async function sandboxOf(
  { request, agent, settings, parent, ports, notices, probing }: Grounds,
  isUnconfined: boolean,
): Promise<Sandbox | undefined> {
  const wanted = wantedSandbox(request, agent, settings);
  if (isUnconfined) return refuseUnconfined(wanted, parent);
  return chooseSandbox(wanted, parent, {
    ...ports.sandbox,
    probe: () => probing ?? ports.sandbox.probe(request.env),
    warn: (text) => void notices.push(text),
  });
}

/** Undefined: none. Fails with UNAVAILABLE where one is required and can't be made. */
export async function chooseSandbox(
  { mode, level, isDefault }: WantedSandbox,
  parent: ParentSandbox | undefined,
  { probe, warn, isFirstNotice }: SandboxPorts,
): Promise<Sandbox | undefined> {
  if (parent?.confinement && (mode !== "required" || isWhole(parent.confinement)))
    return { ...parent.confinement, level: stricter(parent.confinement.level, level) };
  if (mode === "off" || (isDefault && parent)) return undefined;
  const found = await probe();
  if (found.works) return { level, mechanism: found.mechanism, program: found.program };
  if (mode === "auto") {
    const { lesser, why, advice } = found;
    const what = lesser ? `the sandbox is made by ${lesser.mechanism}, which leaves ways out` : "no sandbox";
    if (!isDefault || isFirstNotice()) warn(`${what}: ${why}. To have one, ${advice}`);
    return lesser && { level, ...lesser };
  }
  const message = `A sandbox is required, but ${found.why}. To have one: ${found.advice}. Or run it with --sandbox auto where that is acceptable.`;
  throw new SyscallError("UNAVAILABLE", message);
}

/** The program of such a model has rights of its own. */
export function refuseUnconfined({ mode }: WantedSandbox, parent: ParentSandbox | undefined): undefined {
  if (parent?.confinement === undefined && mode !== "required") return undefined;
  const message =
    "A sandbox is required, and the model's program would work outside of it. Choose another provider, or --sandbox auto.";
  throw new SyscallError("UNAVAILABLE", message);
}
