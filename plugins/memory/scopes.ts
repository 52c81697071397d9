/** The scopes of memory, and the document of each. */

import type { Scope } from "rnix/plugin";
import type { Limits } from "./limits.ts";

/** Scopes as the requests to the devices name them. */
export const TARGETS = ["memory", "global_memory", "profile"] as const;
export type Target = (typeof TARGETS)[number];

/** One memory file: where it is, and its limits. */
export interface MemoryScope {
  target: Target;
  /** Where the store keeps its file. */
  storage: Extract<Scope, "project" | "user">;
  doc: string;
  /** Its name in a sentence. */
  what: string;
  /** Characters that the file may have. */
  limit(limits: Limits): number;
  /** Characters of it in a prompt. */
  inPrompt(limits: Limits): number;
}

export const SCOPES: Readonly<Record<Target, MemoryScope>> = {
  memory: {
    target: "memory",
    storage: "project",
    doc: "MEMORY.md",
    what: "notes of this project",
    limit: ({ notes }) => notes,
    inPrompt: ({ notes_in_prompt }) => notes_in_prompt,
  },
  global_memory: {
    target: "global_memory",
    storage: "user",
    doc: "GLOBAL.md",
    what: "notes for all projects",
    limit: ({ notes }) => notes,
    inPrompt: ({ notes_in_prompt }) => notes_in_prompt,
  },
  profile: {
    target: "profile",
    storage: "user",
    doc: "USER.md",
    what: "profile of the user",
    limit: ({ profile }) => profile,
    inPrompt: ({ profile_in_prompt }) => profile_in_prompt,
  },
};
