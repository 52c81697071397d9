/** The memories of a run: which there are, and how much each may hold. */

import type { InputSchema, Scope } from "rnix/plugin";

/** Scopes as the requests to the devices name them. */
export const TARGETS = ["memory", "global_memory", "profile"] as const;
export type Target = (typeof TARGETS)[number];

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

const DEFAULTS = {
  /** Characters of notes of a scope that can be stored. */
  notes: 200_000,
  /** Characters of the profile that can be stored. */
  profile: 20_000,
  /** Of these, characters in the prompt of a new run. */
  notes_in_prompt: 4_096,
  profile_in_prompt: 2_048,
  /** Runs may search the conversations of all your projects, and not only of their own. */
  recall_all_projects: false,
};
export type Limits = typeof DEFAULTS;

function count(byDefault: number, maximum: number): object {
  return { type: "integer", minimum: 0, maximum, default: byDefault };
}

export const LIMITS = {
  type: "object",
  properties: {
    notes: count(DEFAULTS.notes, 1_000_000),
    profile: count(DEFAULTS.profile, 100_000),
    notes_in_prompt: count(DEFAULTS.notes_in_prompt, 6_000),
    profile_in_prompt: count(DEFAULTS.profile_in_prompt, 3_000),
    recall_all_projects: { type: "boolean", default: DEFAULTS.recall_all_projects },
  },
  additionalProperties: false,
} satisfies InputSchema & object;

/** The settings of a context, which the kernel has checked. */
export function limitsOf(config: unknown): Limits {
  return { ...DEFAULTS, ...(typeof config === "object" && config) };
}

/** Characters of one entry: one that is larger would fill the prompt alone. */
export const MAX_ENTRY = 4_000;
