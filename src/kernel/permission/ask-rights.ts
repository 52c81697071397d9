/** The part of a process's rights that says which calls a person decides. */

import type { PermissionRecord } from "../../store/runs/schema.ts";
import { type AskMode, type AskRights, askedBy, askedForOpened } from "./ask-rules.ts";
import type { CallView } from "./call-view.ts";
import { type Layer, textsOf } from "./coverage.ts";
import { parseRule, type Rule } from "./rule.ts";

/** What a person must be asked about one call. */
export interface Asked {
  /** The ask rules that match. */
  rules: string[];
  /** The files that the call means, absolute. */
  targets: string[];
  /** The call is a search: files that it may not read without a yes are left out. */
  isSearch: boolean;
}

interface Parts {
  /** Its own ask rules, from its spawn and its agent. */
  own: Layer;
  /** The ask rules of all its ancestors. */
  above: Layer;
  /** What is asked for without a rule, by its own spawn or an ancestor's. */
  mode: AskMode;
  /** Rules that a person has allowed for the rest of the run, here or in an ancestor. */
  always: Layer;
  /** Rules that a person has allowed in the project. They are not saved, so that they can be withdrawn. */
  alwaysInProject: Layer;
}

/** Ask rules allow nothing: they only add a question. A child has those of its ancestors and its own. Immutable. */
export class AskLayers {
  static readonly NONE = new AskLayers({ own: [], above: [], mode: "off", always: [], alwaysInProject: [] });

  readonly #parts: Parts;
  readonly #rights: AskRights;

  private constructor(parts: Parts) {
    this.#parts = parts;
    const { own, above, mode, always, alwaysInProject } = parts;
    this.#rights = { rules: [...own, ...above], mode, always: [...always, ...alwaysInProject] };
  }

  static from(record: PermissionRecord): AskLayers {
    const { ask = [], ask_above = [], ask_mode = "off", always = [] } = record;
    return new AskLayers({
      own: ask.map(parseRule),
      above: ask_above.map(parseRule),
      mode: ask_mode,
      always: always.map(parseRule),
      alwaysInProject: [],
    });
  }

  record(): Pick<PermissionRecord, "ask" | "ask_above" | "ask_mode" | "always"> {
    const { own, above, mode, always } = this.#parts;
    return {
      ...(own.length > 0 && { ask: textsOf(own) }),
      ...(above.length > 0 && { ask_above: textsOf(above) }),
      ...(mode !== "off" && { ask_mode: mode }),
      ...(always.length > 0 && { always: textsOf(always) }),
    };
  }

  /** The layers of a child without ask rules of its own. */
  below(): AskLayers {
    const { own, above } = this.#parts;
    return own.length === 0 ? this : this.#with({ own: [], above: union(above, own) });
  }

  /** These layers below the parent's current ones: a stricter mode stays, and no ask rule is lost. */
  within(parent: AskLayers): AskLayers {
    const { mode, always, alwaysInProject } = this.#parts;
    const given = parent.below().#parts;
    return this.#with({
      above: given.above,
      mode: mode === "off" ? given.mode : mode,
      always: union(always, given.always),
      alwaysInProject: union(alwaysInProject, given.alwaysInProject),
    });
  }

  /** Adds ask rules. A stricter mode stays. */
  asking(rules: readonly Rule[], mode: AskMode): AskLayers {
    const { own, mode: before } = this.#parts;
    return this.#with({ own: union(own, rules), mode: before === "off" ? mode : before });
  }

  /** Adds rules that a person has allowed: calls that they cover are not asked for. */
  allowing(rules: readonly Rule[], where: "run" | "project"): AskLayers {
    const { always, alwaysInProject } = this.#parts;
    return where === "run"
      ? this.#with({ always: union(always, rules) })
      : this.#with({ alwaysInProject: union(alwaysInProject, rules) });
  }

  /** Returns what a person must be asked about a call; null when nothing. */
  asks(view: () => CallView): Asked | null {
    if (this.#isEmpty) return null;
    const call = view();
    return asked(askedBy(this.#rights, call), call);
  }

  /** The same for a file that its driver has opened. `also`: other tools whose ask rules count. */
  asksForOpened(view: () => CallView, also: readonly string[]): Asked | null {
    if (this.#isEmpty) return null;
    const call = view();
    return asked([...askedBy(this.#rights, call), ...askedForOpened(this.#rights, also, call)], call);
  }

  /** Nothing is ever asked for. */
  get #isEmpty(): boolean {
    return this.#rights.rules.length === 0 && this.#rights.mode === "off";
  }

  /** Its own ask rules and those of its ancestors. */
  get rules(): Layer {
    return this.#rights.rules;
  }

  /** The rules that a person has allowed, for the rest of the run or in the project. */
  get always(): Layer {
    return this.#rights.always;
  }

  #with(change: Partial<Parts>): AskLayers {
    return new AskLayers({ ...this.#parts, ...change });
  }
}

function asked(rules: readonly string[], view: CallView): Asked | null {
  if (rules.length === 0) return null;
  // Read only now: targets look at the disk.
  const { targets, tool } = view;
  const paths = targets.map(({ absolute }) => `/${absolute.join("/")}`);
  return { rules: [...new Set(rules)], targets: [...new Set(paths)], isSearch: tool?.filters === true };
}

/** The rules of both lists, each once. */
function union(layer: Layer, more: Layer): Layer {
  const fresh = more.filter(({ text }) => !layer.some((rule) => rule.text === text));
  return fresh.length === 0 ? layer : [...layer, ...fresh];
}
