/** The part of a process's rights that says which calls a person decides. */

import { type AskMode, stricterMode } from "../../lib/ask-modes.ts";
import type { Taint } from "../../lib/taint.ts";
import type { PermissionRecord } from "../../store/runs/schema.ts";
import { type AskPorts, type AskRights, askedBy, askedForOpened, type Match } from "./ask-rules.ts";
import type { CallView } from "./call-view.ts";
import { type Layer, textsOf } from "./coverage.ts";
import { parseRule, type Rule } from "./rule.ts";

/** What a person must be asked about one call. */
export interface Asked {
  /** The ask rules that match. */
  rules: string[];
  /** Why, as clauses that follow "asked because". */
  why: string[];
  /** The files that the call means, absolute. */
  targets: string[];
  /** The call is a search: files that it may not read without a yes are left out. */
  isSearch: boolean;
}

type AskRecord = Pick<
  PermissionRecord,
  "ask" | "ask_above" | "ask_mode" | "ask_mode_above" | "always" | "taint"
>;

interface Parts {
  /** Its own ask rules, from its spawn and its agent. */
  own: Layer;
  /** The ask rules of all its ancestors. */
  above: Layer;
  /** What is asked for without a rule: its own mode, and the strictest of its ancestors. */
  mode: AskMode;
  modeAbove: AskMode;
  /** Rules that a person has allowed for the rest of the run, here or in an ancestor. */
  always: Layer;
  /** Rules that a person has allowed in the project. They are not saved, so that they can be withdrawn. */
  alwaysInProject: Layer;
  taint: Taint | undefined;
}

/** Ask rules allow nothing: they only add a question. A child has those of its ancestors and its own. Immutable. */
export class AskLayers {
  static readonly NONE = AskLayers.from({});

  readonly #parts: Parts;
  /** What the layers add up to. */
  readonly rights: AskRights;

  private constructor(parts: Parts) {
    this.#parts = parts;
    const { own, above, mode, modeAbove, always, alwaysInProject, taint } = parts;
    this.rights = {
      taint,
      rules: [...own, ...above],
      mode: stricterMode(mode, modeAbove),
      always: [...always, ...alwaysInProject],
    };
  }

  static from(record: AskRecord): AskLayers {
    const { ask = [], ask_above = [], ask_mode = "off", ask_mode_above = "off", always = [] } = record;
    return new AskLayers({
      own: ask.map(parseRule),
      above: ask_above.map(parseRule),
      mode: ask_mode,
      modeAbove: ask_mode_above,
      always: always.map(parseRule),
      alwaysInProject: [],
      taint: record.taint,
    });
  }

  record(): AskRecord {
    const { own, above, mode, modeAbove, always, taint } = this.#parts;
    return {
      ...(own.length > 0 && { ask: textsOf(own) }),
      ...(above.length > 0 && { ask_above: textsOf(above) }),
      ...(mode !== "off" && { ask_mode: mode }),
      ...(modeAbove !== "off" && { ask_mode_above: modeAbove }),
      ...(always.length > 0 && { always: textsOf(always) }),
      ...(taint && { taint }),
    };
  }

  /** The layers of a child without ask rules and a mode of its own. */
  below(): AskLayers {
    const { own, above, mode } = this.#parts;
    if (own.length === 0 && mode === "off") return this;
    return this.#with({ own: [], above: union(above, own), mode: "off", modeAbove: this.rights.mode });
  }

  /** These layers below the parent's current ones: no mode is looser than the parent's, and no ask rule is lost. */
  within(parent: AskLayers): AskLayers {
    const { always, alwaysInProject } = this.#parts;
    const given = parent.below().#parts;
    return this.#with({
      above: given.above,
      modeAbove: given.modeAbove,
      always: union(always, given.always),
      alwaysInProject: union(alwaysInProject, given.alwaysInProject),
    });
  }

  /** Adds ask rules, and takes another mode of its own if one is given. */
  asking(rules: readonly Rule[], mode = this.#parts.mode): AskLayers {
    return this.#with({ own: union(this.#parts.own, rules), mode });
  }

  /** Adds rules that a person has allowed: calls that they cover are not asked for. */
  allowing(rules: readonly Rule[], where: "run" | "project"): AskLayers {
    const { always, alwaysInProject } = this.#parts;
    return where === "run"
      ? this.#with({ always: union(always, rules) })
      : this.#with({ alwaysInProject: union(alwaysInProject, rules) });
  }

  /** Returns what a person must be asked about a call; null when nothing. `also`: other tools whose ask rules count. */
  asks(view: () => CallView, also: readonly string[], ports: AskPorts): Asked | null {
    const { rules, mode, taint } = this.rights;
    if (rules.length === 0 && mode === "off" && (taint?.policy ?? "off") === "off") return null;
    const call = view();
    return asked([...askedBy(this.rights, call, ports), ...askedForOpened(this.rights, also, call)], call);
  }

  tainted(taint: Taint): AskLayers {
    return this.#with({ taint });
  }

  #with(change: Partial<Parts>): AskLayers {
    return new AskLayers({ ...this.#parts, ...change });
  }
}

function asked(matches: readonly Match[], view: CallView): Asked | null {
  if (matches.length === 0) return null;
  // Read only now: targets look at the disk.
  const { targets, tool } = view;
  const paths = targets.map(({ absolute }) => `/${absolute.join("/")}`);
  const rules = [...new Set(matches.map(({ rule }) => rule))];
  const why = [...new Set(matches.map((match) => match.why))];
  return { rules, why, targets: [...new Set(paths)], isSearch: tool?.filters === true };
}

/** The rules of both lists, each once. */
function union(layer: Layer, more: Layer): Layer {
  const fresh = more.filter(({ text }) => !layer.some((rule) => rule.text === text));
  return fresh.length === 0 ? layer : [...layer, ...fresh];
}
