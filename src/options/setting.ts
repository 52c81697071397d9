/** The type of a setting: its measure, its bounds, its default, and which files may set it. */

/** An `age` is a duration that may be longer than timers allow. */
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

type SettingOf<Scope, Value> = {
  readonly measure: Measure;
  readonly default: Value;
  readonly about: string;
  readonly scope: Scope;
};

/** A setting of a run. One whose default is null, no limit, may be written as `unlimited` too. */
export function run(
  measure: Measure,
  value: null,
  about: string,
): SettingOf<"run", null> & { readonly unlimited: true };
export function run(measure: Measure, value: number, about: string): SettingOf<"run", number>;
export function run(measure: Measure, value: number | null, about: string): SettingOf<"run", number | null> {
  return { measure, default: value, about, scope: "run", ...(value === null && { unlimited: true }) };
}

/** A setting of the user. */
export function user(measure: Measure, value: number, about: string): SettingOf<"user", number> {
  return { measure, default: value, about, scope: "user" };
}
