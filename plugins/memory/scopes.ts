/** The scopes of memory, and the document of each. */

import type { Scope } from "rnix/plugin";
import type { Limits } from "./limits.ts";

/** As the requests to the devices name them. */
export const TARGETS = ["memory", "global_memory", "profile"] as const;
export type Target = (typeof TARGETS)[number];

export interface Place {
  target: Target;
  scope: Extract<Scope, "project" | "user">;
  doc: string;
  /** As a sentence names it. */
  what: string;
  limit(limits: Limits): number;
  inPrompt(limits: Limits): number;
}

export const PLACES: Readonly<Record<Target, Place>> = {
  memory: {
    target: "memory",
    scope: "project",
    doc: "MEMORY.md",
    what: "notes of this project",
    limit: ({ notes }) => notes,
    inPrompt: ({ notes_in_prompt }) => notes_in_prompt,
  },
  global_memory: {
    target: "global_memory",
    scope: "user",
    doc: "GLOBAL.md",
    what: "notes for all projects",
    limit: ({ notes }) => notes,
    inPrompt: ({ notes_in_prompt }) => notes_in_prompt,
  },
  profile: {
    target: "profile",
    scope: "user",
    doc: "USER.md",
    what: "profile of the user",
    limit: ({ profile }) => profile,
    inPrompt: ({ profile_in_prompt }) => profile_in_prompt,
  },
};
