/** The second tier of the kernel's parts: what calls change, wait for and reach by the network. */

import { lazy } from "../../lib/caches.ts";
import { EffectWindows } from "../files/effect-windows.ts";
import { RunNetworks } from "../network/run-networks.ts";
import type { Process } from "../process/process.ts";
import { Drain, WaitingCalls } from "../tools/open-calls.ts";
import type { Core } from "./core.ts";

export interface Calls extends ReturnType<typeof buildCalls> {}

export function buildCalls(core: Core) {
  const { clock, table } = core;
  const waiting = new WaitingCalls(clock);
  return {
    ...core,
    waiting,
    drain: new Drain(clock, waiting),
    windows: new EffectWindows<Process>(clock, table),
    networks: lazy(() => new RunNetworks(core)),
  };
}
