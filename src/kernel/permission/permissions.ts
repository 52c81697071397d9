import { nearestName } from "../../nearest.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { PermissionRecord } from "../../store/schema.ts";
import { type Call, CallView, type Facts, isAtOrBelow, subjectKind, type ToolFacts } from "./call-view.ts";
import { type CommandPattern, coversLine, deniesLine } from "./command-pattern.ts";
import { matchPath, matchText, segments } from "./glob.ts";
import { parseRule, type Rule } from "./rule.ts";

export type { Call, Facts } from "./call-view.ts";

/**
 * What one process may do. A call is covered when every layer allows it, the process's own list and those
 * of all its ancestors, and no deny rule touches it. Layers and deny rules are only ever added, so a child
 * never holds more than its parent. Immutable.
 */
export class Permissions {
  readonly #allow: readonly Layer[];
  readonly #deny: readonly Rule[];
  /** What the called skills list together; undefined: no skill narrows. */
  readonly #skills: Layer | undefined;
  readonly #facts: Facts;

  private constructor(
    allow: readonly Layer[],
    deny: readonly Rule[],
    skills: Layer | undefined,
    facts: Facts,
  ) {
    this.#allow = allow;
    this.#deny = deny;
    this.#skills = skills;
    this.#facts = facts;
  }

  /** The rights of a process without a parent. INVALID for a rule that is malformed or names what is not there. */
  static of(o: { allow: readonly string[]; deny: readonly string[] } & Facts): Permissions {
    const { allow, deny, ...facts } = o;
    return new Permissions([known(allow, facts)], known(deny, facts), undefined, facts);
  }

  /**
   * Rights as they were saved, over the tools and devices of today. A rule for what is gone covers nothing
   * and goes on denying.
   */
  static from(record: PermissionRecord, facts: Facts): Permissions {
    return new Permissions(
      record.allow.map((layer) => layer.map(parseRule)),
      record.deny.map(parseRule),
      record.skills?.map(parseRule),
      facts,
    );
  }

  /**
   * The rights of a child: its own list within these, and these deny rules beside its own. INVALID as in
   * `of`. `cwd`: where the paths it names start, which need not be its parent's folder.
   */
  child(allow: readonly string[], deny: readonly string[], cwd?: string): Permissions {
    const facts = cwd === undefined ? this.#facts : { ...this.#facts, cwd };
    const layers = [known(allow, facts), ...this.#allow];
    if (this.#skills) layers.push(this.#skills);
    return new Permissions(layers, [...this.#deny, ...known(deny, facts)], undefined, facts);
  }

  /**
   * The rights after a skill with such a list was called: within these, what the lists of all called skills
   * allow together. A name that is not there covers nothing. INVALID for a malformed rule.
   */
  narrow(allow: readonly string[]): Permissions {
    const rules = new Map((this.#skills ?? []).map((rule) => [rule.text, rule]));
    for (const text of allow) if (!rules.has(text)) rules.set(text, parseRule(text));
    return new Permissions(this.#allow, this.#deny, [...rules.values()], this.#facts);
  }

  /** The same rights where other tools and devices are there, as a mount brings them and takes them away. */
  withFacts(facts: Partial<Facts>): Permissions {
    return new Permissions(this.#allow, this.#deny, this.#skills, { ...this.#facts, ...facts });
  }

  covers(call: Call): boolean {
    return this.refusal(call) === null;
  }

  /** Why a call is not covered, as one sentence to show; null when it is. */
  refusal(call: Call): string | null {
    const view = new CallView(call, this.#facts);
    const denying = this.#deny.find((rule) => denies(rule, view));
    if (denying) return `The deny rule ${denying.text} forbids it.`;
    const layer = this.#layers().find((rules) => !layerCovers(rules, view));
    if (!layer) return null;
    const near = layer.filter((rule) => rule.kind === "pattern" && rule.name === call.tool);
    if (near.length > 0) return `Only ${near.map((rule) => rule.text).join(", ")} is allowed.`;
    return `${call.tool ?? call.path} is not among the allowed tools.`;
  }

  /** Whether any input of this tool could be covered: whether it is worth showing. */
  showsTool(name: string): boolean {
    const tool = this.#facts.tools.find((candidate) => candidate.name === name);
    if (!tool) return false;
    if (this.#deny.some((rule) => coversWholeTool(rule, tool))) return false;
    return this.#layers().every((layer) => layer.some((rule) => touchesTool(rule, tool)));
  }

  /** The tools that can be used, for people: `Read`, and with conditions `Bash(git *)`. */
  allowedTools(): string[] {
    const shown = this.#facts.tools.filter((tool) => this.showsTool(tool.name));
    return [...new Set(shown.flatMap((tool) => this.#describe(tool)))].sort();
  }

  /** The devices that are covered whole, whatever is done with them. */
  allowedDevices(): string[] {
    return this.#facts.devices
      .filter((device) => this.#layers().every((layer) => layer.some((rule) => coversDevice(rule, device))))
      .filter((device) => !this.#deny.some((rule) => this.#touchesDevice(rule, device)))
      .toSorted();
  }

  /** Everything there is to save, as one unit. */
  record(): PermissionRecord {
    return {
      allow: this.#allow.map((layer) => layer.map((rule) => rule.text)),
      deny: this.#deny.map((rule) => rule.text),
      ...(this.#skills && { skills: this.#skills.map((rule) => rule.text) }),
    };
  }

  #layers(): readonly Layer[] {
    return this.#skills ? [...this.#allow, this.#skills] : this.#allow;
  }

  #describe(tool: ToolFacts): string[] {
    const conditional = this.#layers().find((layer) => !layer.some((rule) => coversWholeTool(rule, tool)));
    if (!conditional) return [tool.name];
    return conditional.filter((rule) => touchesTool(rule, tool)).map((rule) => rule.text);
  }

  #touchesDevice(rule: Rule, device: string): boolean {
    if (rule.kind === "all") return true;
    if (rule.kind === "device") return coversDevice(rule, device) || liesBelow(rule, device);
    return this.#facts.tools.some((tool) => isAtOrBelow(tool.path, device) && touchesTool(rule, tool));
  }
}

type Layer = readonly Rule[];

// --- One call -------------------------------------------------------------------------------------------

function layerCovers(layer: Layer, view: CallView): boolean {
  return layer.some((rule) => rule.kind !== "pattern" && covers(rule, view)) || patternsCover(layer, view);
}

function covers(rule: Exclude<Rule, { kind: "pattern" }>, view: CallView): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind === "tool") return view.tool !== undefined && namesTool(rule, view.tool.name);
  if (!rule.glob)
    return isAtOrBelow(view.device || view.call.path, rule.text) || everyPath(view, rule.segments);
  return everyPath(view, rule.segments) || matchesAllBelow(rule.segments, view.device);
}

/** Several patterns for one tool count together: each command of a line may have its own. */
function patternsCover(layer: Layer, view: CallView): boolean {
  const { tool, kind } = view;
  if (!tool) return false;
  const rules = layer.filter((rule) => rule.kind === "pattern").filter((rule) => rule.name === tool.name);
  if (rules.length === 0) return false;
  if (kind === "command") return coversLine(rules.map(commandOf), view.commandLine);
  return (
    view.places.length > 0 && view.places.every((place) => rules.some((rule) => rule.path.covers(place)))
  );
}

function commandOf(rule: { command: CommandPattern }): CommandPattern {
  return rule.command;
}

/** What cannot be told counts as denied. */
function denies(rule: Rule, view: CallView): boolean {
  const { tool } = view.call;
  switch (rule.kind) {
    case "all":
      return true;
    case "device":
      return deviceDenies(rule, view);
    case "tool":
      // Opened raw, a device would do whatever is written to it: also what this tool does.
      return tool === null
        ? view.toolsThere.some(({ name }) => namesTool(rule, name))
        : namesTool(rule, tool);
    case "pattern":
      if (tool === null) return view.toolsThere.some(({ name }) => name === rule.name);
      return tool === rule.name && patternDenies(rule, view);
  }
}

function patternDenies(rule: Rule & { kind: "pattern" }, view: CallView): boolean {
  if (view.kind === "command") return deniesLine(rule.command, view.commandLine);
  if (view.kind === undefined || view.places.length === 0) return true;
  return view.places.some((place) => rule.path.denies(place));
}

function deviceDenies(rule: Rule & { kind: "device" }, view: CallView): boolean {
  const { path: opened, tool } = view.call;
  if (isAtOrBelow(opened, rule.text)) return true;
  // Opened raw at its root, a device can be told any path.
  if (tool === null && opened === view.device && liesBelow(rule, view.device)) return true;
  const wanted = rule.segments.map((part) => part.toLowerCase());
  return view.devicePaths.some((path) => {
    if (path === null) return view.device === "" || liesBelow(rule, view.device);
    const folded = path.map((part) => part.toLowerCase());
    if (matchPath(wanted, folded) || (!rule.glob && startsWith(folded, wanted))) return true;
    return isAbove(folded, wanted);
  });
}

// --- Devices and names ----------------------------------------------------------------------------------

function namesTool(rule: { name: string; glob: boolean }, name: string): boolean {
  return rule.glob ? matchText(rule.name, name) : rule.name === name;
}

function everyPath(view: CallView, pattern: readonly string[]): boolean {
  const glob = pattern.some(isWild);
  return view.devicePaths.every(
    (path) => path !== null && (glob ? matchPath(pattern, path) : startsWith(path, pattern)),
  );
}

function startsWith(path: readonly string[], head: readonly string[]): boolean {
  return path.length >= head.length && head.every((part, i) => part === path[i]);
}

/** A folder above what the pattern names: searching it would reach there. */
function isAbove(folder: readonly string[], pattern: readonly string[]): boolean {
  const wild = pattern.findIndex(isWild);
  const named = wild < 0 ? pattern : pattern.slice(0, wild);
  return folder.length < named.length && startsWith(named, folder);
}

function isWild(part: string): boolean {
  return /[*?]/.test(part);
}

/** The pattern ends in `**` and what is before it fits the device or something above it. */
function matchesAllBelow(pattern: readonly string[], device: string): boolean {
  if (device === "" || pattern.at(-1) !== "**") return false;
  const parts = segments(device);
  return [[], ...parts.map((_, i) => parts.slice(0, i + 1))].some((above) =>
    matchPath(pattern.slice(0, -1), above),
  );
}

/** Everything that could be done with this device, by whatever tool. */
function coversDevice(rule: Rule, device: string): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind !== "device") return false;
  return rule.glob ? matchesAllBelow(rule.segments, device) : isAtOrBelow(device, rule.text);
}

function coversWholeTool(rule: Rule, tool: ToolFacts): boolean {
  if (rule.kind === "tool") return namesTool(rule, tool.name);
  return coversDevice(rule, tool.path);
}

function touchesTool(rule: Rule, tool: ToolFacts): boolean {
  if (rule.kind === "pattern") return rule.name === tool.name;
  return coversWholeTool(rule, tool) || (rule.kind === "device" && liesBelow(rule, tool.path));
}

/** Something at or below the device could fit the rule. */
function liesBelow(rule: Rule & { kind: "device" }, device: string): boolean {
  for (const [i, part] of segments(device).entries()) {
    const wanted = rule.segments[i];
    if (wanted === "**") return true;
    if (wanted === undefined || !matchText(wanted, part)) return false;
  }
  return true;
}

// --- Names that are not there ---------------------------------------------------------------------------

/** Parses the rules and refuses what is not there: a wrong letter must not change anybody's rights. */
function known(texts: readonly string[], facts: Facts): Layer {
  return texts.map((text) => {
    const rule = parseRule(text);
    checkKnown(rule, facts);
    return rule;
  });
}

function checkKnown(rule: Rule, facts: Facts): void {
  if (rule.kind === "all" || ("glob" in rule && rule.glob)) return;
  if (rule.kind === "device") {
    const there = facts.devices.some(
      (device) => isAtOrBelow(rule.text, device) || isAtOrBelow(device, rule.text),
    );
    if (!there) throw unknown("device", rule.text, rule.text, facts.devices);
    return;
  }
  const tool = facts.tools.find((candidate) => candidate.name === rule.name);
  if (!tool) {
    const names = facts.tools.map((candidate) => candidate.name);
    throw unknown("tool", rule.name, rule.text, names);
  }
  if (rule.kind === "pattern") checkPattern(rule, tool);
}

function checkPattern(rule: Rule & { kind: "pattern" }, tool: ToolFacts): void {
  let problem: string | undefined;
  if (tool.subject === undefined) problem = `nothing of ${tool.name}'s input is compared with patterns`;
  else if (subjectKind(tool) === "path" && rule.path.problem)
    problem = `the path pattern has ${rule.path.problem}`;
  if (problem) throw new SyscallError("INVALID", `Tool rule ${JSON.stringify(rule.text)}: ${problem}.`);
}

function unknown(what: string, name: string, rule: string, names: readonly string[]): SyscallError {
  const near = nearestName(name, names);
  const question = near === undefined ? "" : ` Did you mean ${JSON.stringify(near)}?`;
  const list = names.length === 0 ? "none" : names.toSorted().join(", ");
  const inRule = rule === name ? "" : ` (in the rule ${JSON.stringify(rule)})`;
  return new SyscallError(
    "INVALID",
    `There is no ${what} ${JSON.stringify(name)}${inRule}.${question} These are there: ${list}.`,
  );
}
