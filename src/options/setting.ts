/** What one setting is: its measure, its bounds, its default, and who may set it. */

/** An `age` is a duration beyond the limit of timers. */
export type Measure = "count" | "duration" | "age" | "size" | "dollars";

export interface Bounds {
  measure: Measure;
  min?: number;
  max?: number;
  /** `unlimited` may be written, and is read as null. */
  unlimited?: boolean;
  /** `none` may be written, and is read as 0. */
  none?: boolean;
}

export interface Setting extends Bounds {
  /** null: no limit. */
  default: number | null;
  about: string;
  /** "user": one daemon serves all projects, so a project's file cannot set it. */
  scope: "run" | "user";
  /**
   * A project's file may lower a setting of a run before the user trusts it. Where a smaller value is not safer, because
   * it records less or allows more restarts, it needs trust.
   */
  smaller?: "is not safer";
}

export function run(measure: Bounds["measure"], value: number | null, about: string) {
  return { measure, default: value, about, scope: "run" } as const;
}

export function user(measure: Bounds["measure"], value: number | null, about: string) {
  return { measure, default: value, about, scope: "user" } as const;
}
