/** The messages between a kernel and a starter. */

import { z } from "zod";
import type { ProcessTag } from "./process-tag.ts";

/** The socket over which a starter gets the descriptors of a program's output. */
export const DESCRIPTORS = 3;

/** To a starter, after the descriptors for stdout and stderr. */
export interface StartMessage {
  n: number;
  argv: readonly string[];
  cwd: string;
  env: Record<string, string>;
  mark: ProcessTag;
}

/** From a starter. It is as trustworthy as the programs beside which it runs. PIDs are those of its namespace. */
export const StarterMessage = z.lazy(() =>
  z.discriminatedUnion("t", [
    z.object({ t: z.literal("ready"), pid: z.number().int() }),
    z.object({ t: z.literal("started"), n: z.number(), pid: z.number().int(), isMarked: z.boolean() }),
    z.object({ t: z.literal("failed"), n: z.number() }),
    z.object({
      t: z.literal("exited"),
      n: z.number(),
      code: z.number().nullable(),
      signal: z.string().nullable(),
    }),
  ]),
);
export type StarterMessage = z.infer<typeof StarterMessage>;
