/** The rights of one process: which calls its rules allow. */

import type { AskMode } from "../../lib/ask-modes.ts";
import type { Taint } from "../../lib/taint.ts";
import { type GuardedFolder, SyscallError } from "../../plugin/index.ts";
import type { PermissionRecord } from "../../store/runs/schema.ts";
import type { SpawnOpts } from "../types.ts";
import type { Asked } from "./ask-rules.ts";
import { type Call, CallView, type Facts, isAtOrBelow, subjectKind, type ToolFacts } from "./call-view.ts";
import { allowsAll, contains, makesNeedless, namesProtected } from "./containment.ts";
import {
  coveredBy,
  coversDevice,
  coversMount,
  coversWholeTool,
  deniedTo,
  denies,
  type Layer,
  liesBelow,
  textsOf,
  touchesMount,
  touchesTool,
} from "./coverage.ts";
import { isQuiet, usesGit } from "./line-needs.ts";
import { folderToOpen, type OpenedFolder, openedByRules, withFolders } from "./opened-folders.ts";
import { denialOf, refusalOf, whyImpossible } from "./refusal.ts";
import { FRESH, knownRules, type Rights, recordOf, rightsFrom } from "./rights.ts";
import { parseRule, type Rule } from "./rule.ts";
import { suggestRules } from "./suggest-rules.ts";

export type { Call, Facts } from "./call-view.ts";

/** Maximum rules of a process's own, with all grants and revokes. */
const MAX_OWN_RULES = 1_000;

/** The process that grants or revokes, by its UUID; null for PID 0. */
type Grantor = string | null;

/** The rule of the process's own list that covers a call, or one sentence why none does. */
type Decision = { rule: string } | { refusal: string };

type AskOpts = Pick<SpawnOpts, "ask" | "askMode" | "alwaysAllowed" | "unasked" | "approved">;

/**
 * A call is covered when every list allows it, the process's own and those of all its ancestors, and no deny rule
 * matches it. A process's own list may grow, but its parent's lists limit it. So no process has more rights than its
 * parent. Ask rules allow nothing: a person decides the covered calls that one of them matches. Immutable.
 */
export class Permissions {
  readonly #parts: Rights;
  readonly #facts: Facts;
  /** Its own list and the rules of its mounts. */
  readonly #own: Layer;
  // Computed once, because these rights never change and each record of a run lists them. Lists are small: each process
  // that waits has them.
  #shown: readonly ToolFacts[] | undefined;
  #allowedTools: readonly string[] | undefined;
  #allowedDevices: readonly string[] | undefined;
  #opened: readonly OpenedFolder[] | undefined;
  /** All lists that must allow a call. */
  readonly #limits: readonly Layer[];
  readonly #denials: Layer;

  private constructor(parts: Rights, facts: Facts) {
    const { own, mounts, deny, revoked, above, denyAbove } = parts;
    this.#parts = parts;
    this.#facts = facts;
    this.#own = mounts.size === 0 ? own : [...own, ...[...mounts.values()].flat()];
    this.#limits = [this.#own, ...above];
    this.#denials = [...deny, ...revoked.map(({ rule }) => rule), ...denyAbove];
  }

  /** Returns the rights of a process without a parent. Fails with INVALID for a malformed rule or an unknown name. */
  static of(o: { allow: readonly string[]; deny: readonly string[] } & Facts): Permissions {
    const { allow, deny, ...facts } = o;
    return new Permissions({ ...FRESH, own: knownRules(allow, facts), deny: knownRules(deny, facts) }, facts);
  }

  /**
   * Restores saved rights over today's tools and devices. A rule for a removed tool or device covers nothing, but still
   * denies.
   */
  static from(record: PermissionRecord, facts: Facts): Permissions {
    return new Permissions(rightsFrom(record), facts);
  }

  /**
   * Returns the rights of a child: its own list limited by these rights, and its own deny rules in addition to these.
   * Fails as `of` does. `cwd`: the folder of its relative paths, which may differ from its parent's.
   */
  child(
    allow: readonly string[],
    deny: readonly string[],
    place?: Pick<Facts, "cwd" | "projectDir">,
  ): Permissions {
    const facts = { ...this.#facts, ...place };
    const isElsewhere = facts.projectDir !== this.#facts.projectDir;
    const rights = {
      ...FRESH,
      own: knownRules(allow, facts),
      deny: knownRules(deny, facts),
      above: this.#limits,
      denyAbove: this.#denials,
      asks: this.#parts.asks.below(),
      // A worktree is all that its run may use.
      opened: isElsewhere ? [] : this.#parts.opened,
    };
    return new Permissions(rights, facts);
  }

  /** Returns these rights, limited by the parent's current rights. */
  within(parent: Permissions): Permissions {
    const asks = this.#parts.asks.within(parent.#parts.asks);
    const opened = withFolders(this.#parts.opened, parent.#parts.opened);
    return this.#with({ above: parent.#limits, denyAbove: parent.#denials, asks, opened });
  }

  /** What is asked for without a rule. */
  get askMode(): AskMode {
    return this.#parts.asks.rights.mode;
  }

  /** Returns the same rights with more ask rules, and with this mode if it is given. Fails as `of` does. */
  asking(ask: readonly string[], mode?: AskMode): Permissions {
    return this.#with({ asks: this.#parts.asks.asking(knownRules(ask, this.#facts), mode) });
  }

  /** Adds the ask rules of a spawn or a resume, and what a person has allowed in the project. */
  withAsks(opts: AskOpts, ofAgent: readonly string[] = []): Permissions {
    const { ask = [], askMode, alwaysAllowed = [], unasked = [], approved = [] } = opts;
    const asks = this.#parts.asks.approving(approved);
    return this.#with({ asks })
      .asking([...ofAgent, ...ask], askMode)
      .allowAlways(unasked, "run")
      .allowAlways(alwaysAllowed, "project");
  }

  /** Adds rules that a person has allowed: calls that they cover are not asked for. */
  allowAlways(rules: readonly string[], where: "run" | "project"): Permissions {
    if (rules.length === 0) return this;
    return this.#grown({ asks: this.#parts.asks.allowing(rules.map(parseRule), where) });
  }

  /** Returns the same rights after the process has read text of others. */
  tainted(taint: Taint): Permissions {
    return this.#with({ asks: this.#parts.asks.tainted(taint) });
  }

  get taint(): Taint | undefined {
    return this.#parts.asks.rights.taint;
  }

  /** Opens these folders outside of the project. */
  opening(folders: readonly OpenedFolder[]): Permissions {
    const opened = withFolders(this.#parts.opened, folders);
    return opened === this.#parts.opened ? this : this.#with({ opened });
  }

  /** The folders outside of the project that a person has opened, by a yes or by an "always". */
  get opened(): readonly OpenedFolder[] {
    const pathTool = (name: string): ToolFacts | undefined =>
      this.#facts.tools.find((tool) => tool.name === name && subjectKind(tool) === "path");
    const { opened, asks } = this.#parts;
    this.#opened ??= withFolders(opened, openedByRules(asks.rights.always, pathTool));
    return this.#opened;
  }

  /** The folder that a yes to this call opens to the run; undefined when the call needs none. */
  opens(call: Call): OpenedFolder | undefined {
    const view = this.#view(call);
    const real = view.realTarget;
    if (real === undefined || view.isInFolders) return undefined;
    return { dir: folderToOpen(real, view.projectDir), write: view.writes };
  }

  /** Why this call fails even with a person's yes; null when it may succeed. */
  impossible(call: Call, guarded: readonly GuardedFolder[]): string | null {
    return whyImpossible(this.#view(call), guarded);
  }

  /** Returns the same rights over other tools and devices, which mounts add and remove. */
  withFacts(facts: Partial<Facts>): Permissions {
    return new Permissions(this.#parts, { ...this.#facts, ...facts });
  }

  /** Returns the same rights, to which mounts add nothing. */
  fixed(): Permissions {
    return this.#with({ fixed: true });
  }

  /** Adds the rules of a mount at this path. They end with the mount and are not saved. */
  withMount(path: string, texts: readonly string[]): Permissions {
    if (this.#parts.fixed) return this;
    return this.#with({ mounts: new Map(this.#parts.mounts).set(path, texts.map(parseRule)) });
  }

  withoutMount(path: string): Permissions {
    const mounts = new Map(this.#parts.mounts);
    return mounts.delete(path) ? this.#with({ mounts }) : this;
  }

  /** Parses rules. Fails as `of` does. */
  rules(texts: readonly string[]): readonly Rule[] {
    return knownRules(texts, this.#facts);
  }

  /**
   * Adds rules and removes equal deny rules. Only PID 0 removes a deny rule of its spawn or of PID 0; a process removes
   * only its own. `lift`: the ancestors have ended, so their lists grow too.
   */
  grant(rules: readonly Rule[], by: Grantor, o: { lift: boolean }): Permissions {
    const others = (layer: Layer): Layer => layer.filter((rule) => !includesRule(rules, rule));
    const plus = (layer: Layer): Layer => [
      ...layer,
      ...rules.filter((rule) => !layer.some((held) => makesNeedless(held, rule, this.#facts))),
    ];
    const { own, deny, revoked, above, denyAbove } = this.#parts;
    return this.#grown({
      own: plus(own),
      deny: by === null ? others(deny) : deny,
      revoked: revoked.filter((one) => !includesRule(rules, one.rule) || (by !== null && by !== one.by)),
      above: o.lift ? above.map(plus) : above,
      denyAbove: o.lift ? others(denyAbove) : denyAbove,
    });
  }

  /** Adds each rule as a deny rule, until the same rule is granted. */
  revoke(rules: readonly Rule[], by: Grantor): Permissions {
    const { deny, revoked } = this.#parts;
    if (by === null)
      return this.#grown({ deny: [...deny, ...rules.filter((rule) => !includesRule(deny, rule))] });
    const known = [...deny, ...revoked.map((entry) => entry.rule)];
    const fresh = rules.filter((rule) => !includesRule(known, rule)).map((rule) => ({ rule, by }));
    return this.#grown({ revoked: [...revoked, ...fresh] });
  }

  /** Returns why these rights do not include the rule, as a clause for a message; null when they do. */
  lacks(rule: Rule): string | null {
    const denying = this.#denials.find((denied) => contains(denied, rule, this.#facts));
    if (denying) return `the deny rule ${denying.text} forbids it`;
    return this.#holds(rule) ? null : `it may use ${this.allowedTools().join(", ") || "nothing"}`;
  }

  /** Returns the rules of another list that these rights do not include, or whose name is unknown. */
  notHeld(texts: readonly string[]): string[] {
    return texts.filter((text) => {
      try {
        return knownRules([text], this.#facts).some((rule) => this.lacks(rule) !== null);
      } catch (thrown) {
        if (thrown instanceof SyscallError && thrown.code === "INVALID") return true;
        throw thrown;
      }
    });
  }

  /** Returns true when the rule matches a tool that can be used, or some input of it. */
  touches(rule: Rule): boolean {
    return this.#facts.tools.some((tool) => touchesTool(rule, tool) && this.showsTool(tool.name));
  }

  covers(call: Call): boolean {
    return "rule" in this.decide(call);
  }

  /** Returns why a call is not covered, as one sentence for a message; null when it is. */
  refusal(call: Call): string | null {
    const decision = this.decide(call);
    return "refusal" in decision ? decision.refusal : null;
  }

  /**
   * Like `refusal`, for a tool by its name, even if it is not shown to the model. A call that a person has to decide is
   * refused, too.
   */
  toolRefusal(name: string, subject: string): string | null {
    const path = this.#facts.tools.find((tool) => tool.name === name)?.path ?? "";
    const call = { tool: name, path, subject };
    const refusal = this.refusal(call);
    if (refusal !== null) return refusal;
    const asked = this.asks(call);
    return asked && `A person has to decide it, because ${asked.why.join("; ")}: call ${name} itself.`;
  }

  /**
   * Returns what a person must be asked about a covered call; null when nothing. `also`: for a file that its driver has
   * opened, other tools whose ask rules count.
   */
  asks(call: Call, also: readonly string[] = []): Asked | null {
    return this.#parts.asks.asks(() => this.#view(call), also, this.#askPorts);
  }

  /** Returns the rules that "always" would allow for this call, as they are shown to the person; empty for none. */
  suggestAlways(call: Call): string[] {
    return suggestRules(this.#view(call), this.#parts.asks.rights, this.#askPorts);
  }

  /** Whether the call is a command that needs no question in its mode because it only reads, by git too. */
  readsByGit(call: Call): boolean {
    const { mode } = this.#parts.asks.rights;
    const view = this.#view(call);
    if (mode === "off" || !view.runsCommand) return false;
    const line = view.commandLine ?? [];
    return line.some(usesGit) && isQuiet(line);
  }

  /** What decides the files of a command. */
  get #askPorts() {
    return {
      denies: (view: CallView) => this.#denials.some((rule) => denies(rule, view)),
      allows: (view: CallView) => "rule" in this.#decide(view),
      own: this.#parts.own,
    };
  }

  /**
   * Returns why this call may not have a file that its driver has opened; null when it may. `also`: other tools whose
   * deny patterns count, because a search must not read what Read may not read.
   */
  refusalOfOpened(call: Call & { opened: string }, also: readonly string[]): string | null {
    const view = this.#view(call);
    const denying = deniedTo(this.#denials, also, view);
    if (denying) return denialOf(denying);
    if (view.isReadOnlyThere) return "Its folder is open to this run for reading only.";
    const decision = this.#decide(view);
    return "refusal" in decision ? decision.refusal : null;
  }

  /**
   * The project's folder, if rules let this search have every file in it: then its files need no check one by one.
   * `also`: as for one file.
   */
  searchesAllOf(call: Call, also: readonly string[]): string | null {
    const { tool } = this.#view(call);
    if (tool?.filters !== true || tool.readOnly !== true) return null;
    const tools = this.#facts.tools.filter(({ name }) => name === tool.name || also.includes(name));
    const rules = [...this.#denials, ...this.#parts.asks.rights.rules];
    if (rules.some((rule) => tools.some((one) => touchesTool(rule, one)))) return null;
    const isWhole = this.#inEveryList((rule) => coversWholeTool(rule, tool));
    return isWhole ? this.#view(call).projectDir : null;
  }

  decide(call: Call): Decision {
    return this.#decide(this.#view(call));
  }

  #decide(view: CallView): Decision {
    const denying = this.#denials.find((rule) => denies(rule, view));
    if (denying) return { refusal: denialOf(denying) };
    const rule = coveredBy(this.#own, view);
    if (rule === null) return { refusal: refusalOf(this.#own, view) };
    const limit = this.#limits.find((layer) => coveredBy(layer, view) === null);
    return limit ? { refusal: refusalOf(limit, view) } : { rule };
  }

  #view(call: Call): CallView {
    return new CallView(call, this.#facts, this.opened);
  }

  /** Returns true when some input of this tool could be covered, so that it is shown to the model. */
  showsTool(name: string): boolean {
    return this.#shownTools().some((tool) => tool.name === name);
  }

  /** The names of all tools that `showsTool` is true for. */
  shownNames(): Set<string> {
    return new Set(this.#shownTools().map(({ name }) => name));
  }

  #shows(tool: ToolFacts): boolean {
    if (this.#denials.some((rule) => coversWholeTool(rule, tool))) return false;
    return this.#inEveryList((rule) => touchesTool(rule, tool));
  }

  #inEveryList(fits: (rule: Rule) => boolean): boolean {
    return this.#limits.every((layer) => layer.some(fits));
  }

  /** Whether some tool of a mount with this prefix and path could be used, before its tools are known. */
  mayUseMount(prefix: string, path: string): boolean {
    const { own, fixed, above } = this.#parts;
    if (this.#denials.some((rule) => coversMount(rule, prefix, path))) return false;
    const lists = [...(fixed ? [own] : []), ...above];
    return lists.every((layer) => layer.some((rule) => touchesMount(rule, prefix, path)));
  }

  /** Lists the tools that can be used, for display: `Read`, and with conditions `Bash(git *)`. */
  allowedTools(): string[] {
    this.#allowedTools ??= [...new Set(this.#shownTools().flatMap((tool) => this.#describe(tool)))].sort();
    return [...this.#allowedTools];
  }

  /** Its rules with patterns over files, which bind programs, too. */
  get overFiles(): { denials: Layer; limits: readonly Layer[]; facts: Facts } {
    const facts = this.#facts;
    const isOver = (rule: Rule): boolean =>
      rule.kind === "pattern" &&
      facts.tools.some((tool) => tool.name === rule.name && subjectKind(tool) === "path");
    const limits = this.#limits.map((layer) => layer.filter(isOver));
    return { denials: this.#denials.filter(isOver), limits, facts };
  }

  /** Lists all deny rules, which take precedence over every allow rule. */
  deniedTools(): string[] {
    return [...new Set(this.#denials.map((rule) => rule.text))].sort();
  }

  /** Lists the devices of which the process can reach something: through a tool, or by opening them. */
  allowedDevices(): string[] {
    this.#allowedDevices ??= this.#reachedDevices().toSorted();
    return [...this.#allowedDevices];
  }

  /** Rules of every list allow everything, and none denies. */
  get #isUnlimited(): boolean {
    return this.#denials.length === 0 && this.#inEveryList(({ kind }) => kind === "all");
  }

  #reachedDevices(): readonly string[] {
    const { devices } = this.#facts;
    if (this.#isUnlimited) return devices;
    const paths = this.#shownTools().map(({ path }) => path);
    const hasTool = (device: string): boolean => paths.some((path) => isAtOrBelow(path, device));
    return devices.filter((device) => hasTool(device) || this.#opensDevice(device));
  }

  #shownTools(): readonly ToolFacts[] {
    const { tools } = this.#facts;
    this.#shown ??= this.#isUnlimited ? tools : tools.filter((tool) => this.#shows(tool));
    return this.#shown;
  }

  /** Returns the record of these rights, which is saved and restored as one unit. */
  record(): PermissionRecord {
    return recordOf(this.#parts);
  }

  #with(change: Partial<Rights>): Permissions {
    return new Permissions({ ...this.#parts, ...change }, this.#facts);
  }

  #grown(change: Partial<Rights>): Permissions {
    const grown = this.#with(change);
    const { own, deny, revoked, asks } = grown.#parts;
    const rules = own.length + deny.length + revoked.length + asks.rights.always.length;
    if (rules > MAX_OWN_RULES) {
      const message = `A process may have at most ${MAX_OWN_RULES} rules of its own; with this change it would have ${rules}.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    return grown;
  }

  #describe(tool: ToolFacts): string[] {
    const conditional = this.#limits.find((layer) => !layer.some((rule) => coversWholeTool(rule, tool)));
    if (!conditional) return [tool.name, ...this.#protectedRules(tool)];
    return conditional.filter((rule) => touchesTool(rule, tool)).map((rule) => rule.text);
  }

  /** Returns the rules that name protected paths: a rule for the whole tool does not cover these. */
  #protectedRules(tool: ToolFacts): string[] {
    const own = this.#own.filter((rule) => rule.kind === "pattern" && rule.name === tool.name);
    const facts = this.#facts;
    return textsOf(own.filter((rule) => namesProtected(rule, facts) && this.#holds(rule)));
  }

  #holds(rule: Rule): boolean {
    return this.#inEveryList((own) => allowsAll(own, rule, this.#facts));
  }

  /** Whether it may open the device, or something below it, itself. */
  #opensDevice(device: string): boolean {
    const reaches = (rule: Rule): boolean =>
      coversDevice(rule, device) || (rule.kind === "device" && liesBelow(rule, device));
    return this.#inEveryList(reaches) && !this.#denials.some((rule) => this.#closesDevice(rule, device));
  }

  /** A device that is opened itself would do what a denied tool does. */
  #closesDevice(rule: Rule, device: string): boolean {
    if (rule.kind === "all" || rule.kind === "device") return coversDevice(rule, device);
    return this.#facts.tools.some((tool) => isAtOrBelow(tool.path, device) && touchesTool(rule, tool));
  }
}

function includesRule(layer: Layer, rule: Rule): boolean {
  return layer.some(({ text }) => text === rule.text);
}
