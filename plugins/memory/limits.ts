/** The settings of the plugin: `plugins: memory: …` in config.yaml. */

import type { InputSchema } from "rnix/plugin";

export interface Limits {
  /** Characters of notes of a scope that can be stored. */
  notes: number;
  /** Characters of the profile that can be stored. */
  profile: number;
  /** Of these, characters in the prompt of a new run. */
  notes_in_prompt: number;
  profile_in_prompt: number;
  /** Runs may search the conversations of all your projects, and not only of their own. */
  recall_all_projects: boolean;
}

const count = (byDefault: number, maximum: number): object => ({
  type: "integer",
  minimum: 0,
  maximum,
  default: byDefault,
});

export const LIMITS = {
  type: "object",
  properties: {
    notes: count(200_000, 1_000_000),
    profile: count(20_000, 100_000),
    notes_in_prompt: count(4_096, 6_000),
    profile_in_prompt: count(2_048, 3_000),
    recall_all_projects: { type: "boolean", default: false },
  },
  additionalProperties: false,
} satisfies InputSchema & object;

/** The settings of a context. The kernel has checked them, and filled in defaults. */
export function limitsOf(config: unknown): Limits {
  const given = typeof config === "object" && config !== null ? config : {};
  return {
    notes: 200_000,
    profile: 20_000,
    notes_in_prompt: 4_096,
    profile_in_prompt: 2_048,
    recall_all_projects: false,
    ...given,
  };
}

/** Characters of one entry: one that is larger would fill the prompt alone. */
export const MAX_ENTRY = 4_000;
