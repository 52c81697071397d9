import { z } from "zod";
import type { ProcInfo } from "../store/runs/schema.ts";
import { Page, type ProcRef, Target } from "./fields.ts";
import type { Receipt } from "./receipt.ts";

const Listing = () =>
  z.object({ cwd: z.string().optional(), all_projects: z.boolean().optional(), ...Page() });

/** Rules as in `allow` and `deny` of a spawn. */
const RightsRequest = () => Target().extend({ tools: z.array(z.string().min(1).max(1_000)).min(1).max(100) });

/** What a person may have a run wait for. */
const PersonsWake = () =>
  z.discriminatedUnion("on", [
    z.object({ on: z.literal("at"), at_ms: z.int().positive() }),
    z.object({ on: z.literal("message") }),
    z.object({ on: z.literal("never") }),
  ]);

/** What there is, and what is done to one of them while it runs or waits. */
export const PROCESS_METHODS = {
  /** `waiting`: those too that are suspended and go on by themselves. */
  list_procs: {
    streaming: false,
    payload: () => Listing().extend({ waiting: z.boolean().optional() }),
  },
  list_all_procs: { streaming: false, payload: Listing },
  kill: { streaming: false, payload: () => Target().extend({ signal: z.int().optional() }) },
  signal_tree: { streaming: false, payload: () => Target().extend({ signal: z.int().optional() }) },
  /** `wake`: it goes on by itself then. Of a run that is suspended already, what it waits for from now on. */
  suspend: { streaming: false, payload: () => Target().extend({ wake: PersonsWake().optional() }) },
  compact: { streaming: false, payload: Target },
  allow: { streaming: false, payload: RightsRequest },
  deny: { streaming: false, payload: RightsRequest },
  wait: { streaming: false, payload: () => Target().extend({ timeout_ms: z.int().positive().optional() }) },
} as const;

export interface ProcessAnswers {
  list_procs: { processes: ProcInfo[] };
  /** Newest last. `unreadable` names runs whose record could not be read. */
  list_all_procs: { processes: ProcInfo[]; total: number; unreadable: { path: string; message: string }[] };
  /** `affected`: 0 for one that has ended already. `was_suspended`: it had no process, and has ended on disk. */
  kill: ProcRef & { affected: number; was_suspended?: true };
  signal_tree: ProcRef & { affected: number; was_suspended?: true };
  suspend: ProcRef & { state: ProcInfo["state"]; step: number };
  /** The same number twice where nothing was to be gained. */
  compact: ProcRef & { pre_tokens: number; post_tokens: number; summarised_by: "model" | "digest" | null };
  allow: RightsAnswer;
  deny: RightsAnswer;
  wait: Receipt;
}

/** What a run may use after the change. Nothing of `denied_tools`, whatever is allowed. */
interface RightsAnswer extends ProcRef {
  allowed_tools: string[];
  denied_tools: string[];
}
