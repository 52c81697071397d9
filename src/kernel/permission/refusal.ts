/** Explains why rules refuse a call, or why it would fail. */

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { isWithin, realOrSame } from "../../lib/inner-path.ts";
import type { GuardedFolder } from "../../plugin/index.ts";
import type { CallView } from "./call-view.ts";
import { whyUncoverable } from "./command-pattern.ts";
import { type Layer, textsOf } from "./coverage.ts";
import type { Protection } from "./protected-paths.ts";
import type { Rule } from "./rule.ts";

export function denialOf(rule: Rule): string {
  return `The deny rule ${rule.text} forbids it.`;
}

export function refusalOf(layer: Layer, view: CallView): string {
  const { call, kind, commandLine, protection } = view;
  if (protection) return protectedRefusal(view, protection);
  const near = layer.filter((rule) => rule.kind === "pattern" && rule.name === call.tool);
  if (near.length > 0) {
    const why = kind === "command" ? whyUncoverable(commandLine) : null;
    return `Only ${textsOf(near).join(", ")} is allowed.${why === null ? "" : ` ${why}`}`;
  }
  return `${call.tool ?? call.path} is not among the allowed tools.`;
}

/** The message suggests the rule that would allow it. */
function protectedRefusal({ call, device, targets }: CallView, { folder, reader }: Protection): string {
  const does = reader === "git" ? "git runs what is written there" : "Rnix loads what is written there";
  const target = targets.at(-1) ?? { absolute: [], relative: null };
  const path = target.relative?.join("/") ?? `/${target.absolute.join("/")}`;
  const rule = call.tool === null ? `${device}/${path}` : `${call.tool}(${path})`;
  return `${folder} is protected, as ${does}. Only a rule that names it allows this: ${rule}.`;
}

/**
 * Why the call would fail even with a person's yes, so that no person is asked in vain; null: it would not. Whether a
 * missing file may be read is not said: outside of the run's folders not even existence is revealed.
 */
export function whyImpossible(view: CallView, guarded: readonly GuardedFolder[]): string | null {
  const real = view.realTarget;
  if (real === undefined) return null;
  const guard = guarded.find(
    ({ dir, readable }) => (view.writes || !readable) && isWithin(realOrSame(dir), real),
  );
  if (guard) {
    return guard.readable
      ? `${real} belongs to the records of Rnix, which tools can't change.`
      : `${real} belongs to the settings and keys of Rnix, which tools can't read.`;
  }
  return view.writes ? whyUnwritable(real) : null;
}

/** A file is replaced, so its folder must be writable: the nearest one that exists. */
function whyUnwritable(real: string): string | null {
  if (statSync(real, { throwIfNoEntry: false })?.isDirectory()) return `${real} is a folder, not a file.`;
  let folder = dirname(real);
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return null;
  } catch (thrown) {
    return `${folder} can't be written (${errnoOf(thrown) ?? "unknown reason"}).`;
  }
}
