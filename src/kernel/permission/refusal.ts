/** Explains why rules refuse a call. */

import type { CallView } from "./call-view.ts";
import { whyUncoverable } from "./command-pattern.ts";
import { type Layer, textsOf } from "./coverage.ts";
import type { Protection } from "./protected-paths.ts";
import type { Rule } from "./rule.ts";

/** One sentence for the message of a refused call. */
export function denialOf(rule: Rule): string {
  return `The deny rule ${rule.text} forbids it.`;
}

/** Explains why a list does not cover a call. */
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
