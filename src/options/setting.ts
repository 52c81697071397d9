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

type SettingOf<Scope, Value, More> = More & {
  readonly measure: Measure;
  readonly default: Value;
  readonly about: string;
  readonly scope: Scope;
};

type More = Partial<Omit<Setting, "measure" | "default" | "about" | "scope">>;

/** A setting of a run. One whose default is null, no limit, may be written as `unlimited` too. */
export function run<const Value extends number | null, const M extends More = object>(
  measure: Measure,
  value: Value,
  about: string,
  more?: M,
): SettingOf<"run", Value, Value extends null ? M & { readonly unlimited: true } : M>;
export function run(measure: Measure, value: number | null, about: string, more: More = {}): Setting {
  return {
    measure,
    default: value,
    about,
    scope: "run",
    ...(value === null && { unlimited: true }),
    ...more,
  };
}

/** A setting of the user. */
export function user<const M extends More = object>(
  measure: Measure,
  value: number,
  about: string,
  more?: M,
): SettingOf<"user", number, M>;
export function user(measure: Measure, value: number, about: string, more: More = {}): Setting {
  return { measure, default: value, about, scope: "user", ...more };
}
