/** The last tier of the kernel's parts: what the system keeps running, and how everything is shut down. */

import { InitManager } from "../init-manager.ts";
import { LifecycleManager } from "../lifecycle-manager.ts";
import { DirectCalls } from "../lifetime/direct-calls.ts";
import { SupervisorManager } from "../supervisor-manager.ts";
import type { Agents } from "./agents.ts";

export interface System extends ReturnType<typeof buildSystem> {}

export function buildSystem(parts: Agents) {
  const supervisors = new SupervisorManager(parts);
  const init = new InitManager({ ...parts, supervisors });
  const lifecycle = new LifecycleManager({ ...parts, init });
  return { ...parts, supervisors, init, lifecycle, calls: new DirectCalls(parts) };
}
