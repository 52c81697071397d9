import { SyscallError } from "../../plugin/index.ts";
import type { PermissionRecord } from "../../store/runs/schema.ts";
import { type Call, CallView, type Facts, isAtOrBelow, type ToolFacts } from "./call-view.ts";
import { whyUncoverable } from "./command-pattern.ts";
import { allowsAll, contains, makesNeedless, namesProtected } from "./containment.ts";
import { coveredBy, deniedTo, denies, type Layer } from "./coverage.ts";
import { knownRules } from "./known-rules.ts";
import type { Protection } from "./protected-paths.ts";
import { parseRule, type Rule } from "./rule.ts";
import { coversDevice, coversWholeTool, liesBelow, touchesTool } from "./rule-reach.ts";

export type { Call, Facts } from "./call-view.ts";

/** Rules that a grant or a revoke names: of a person, they are few. */
const MAX_OWN_RULES = 1_000;

/** Who grants or revokes: a process by its UUID, or PID 0. */
type Grantor = string | null;

/** Why a call is covered or is not: the rule of the process's own list, or one sentence to show. */
type Decision = { rule: string } | { refusal: string };

interface Rights {
  /** The process's own list. */
  own: Layer;
  /** What comes with its mounts, by their path: to its own list while they stand. */
  mounts: ReadonlyMap<string, Layer>;
  /** Its own list is its spawner's: mounts add nothing to it. */
  fixed: boolean;
  /** Its own deny rules: of its spawn, and of PID 0. */
  deny: Layer;
  /** Deny rules of processes above, each with who made it and may take it back. */
  revoked: readonly { rule: Rule; by: string }[];
  /** The lists of all its ancestors. */
  above: readonly Layer[];
  /** The deny rules of all its ancestors. */
  denyAbove: Layer;
}

/**
 * What one process may do. A call is covered when every list allows it, the process's own and those of all
 * its ancestors, and no deny rule touches it. A process's own part may grow; as it always stands within its
 * parent's, no process ever holds more than its parent. Immutable.
 */
export class Permissions {
  readonly #parts: Rights;
  readonly #facts: Facts;
  /** Its own list and what comes with its mounts. */
  readonly #own: Layer;
  /** Every list that must allow a call. */
  readonly #limits: readonly Layer[];
  /** Every rule that forbids. */
  readonly #denials: Layer;

  private constructor(parts: Rights, facts: Facts) {
    const { own, mounts, deny, revoked, above, denyAbove } = parts;
    this.#parts = parts;
    this.#facts = facts;
    this.#own = mounts.size === 0 ? own : [...own, ...[...mounts.values()].flat()];
    this.#limits = [this.#own, ...above];
    this.#denials = [...deny, ...revoked.map(({ rule }) => rule), ...denyAbove];
  }

  /** The rights of a process without a parent. INVALID for a rule that is malformed or names what is not there. */
  static of(o: { allow: readonly string[]; deny: readonly string[] } & Facts): Permissions {
    const { allow, deny, ...facts } = o;
    return new Permissions({ ...FRESH, own: knownRules(allow, facts), deny: knownRules(deny, facts) }, facts);
  }

  /**
   * Rights as they were saved, over the tools and devices of today. A rule for what is gone covers nothing
   * and goes on denying.
   */
  static from(record: PermissionRecord, facts: Facts): Permissions {
    const [own = [], ...above] = record.allow.map((layer) => layer.map(parseRule));
    return new Permissions(
      {
        ...FRESH,
        own,
        fixed: record.fixed === true,
        deny: record.deny.map(parseRule),
        revoked: (record.revoked ?? []).map(({ rule, by }) => ({ rule: parseRule(rule), by })),
        above,
        denyAbove: (record.deny_above ?? []).map(parseRule),
      },
      facts,
    );
  }

  /**
   * The rights of a child: its own list within these, and these deny rules beside its own. INVALID as in
   * `of`. `cwd`: where the paths it names start, which need not be its parent's folder.
   */
  child(allow: readonly string[], deny: readonly string[], cwd?: string): Permissions {
    const facts = cwd === undefined ? this.#facts : { ...this.#facts, cwd };
    return new Permissions(
      {
        ...FRESH,
        own: knownRules(allow, facts),
        deny: knownRules(deny, facts),
        above: this.#limits,
        denyAbove: this.#denials,
      },
      facts,
    );
  }

  /** These rights within what the parent's are by now. */
  within(parent: Permissions): Permissions {
    return this.#with({ above: parent.#limits, denyAbove: parent.#denials });
  }

  /** The same rights where other tools and devices are there, as a mount brings them and takes them away. */
  withFacts(facts: Partial<Facts>): Permissions {
    return new Permissions(this.#parts, { ...this.#facts, ...facts });
  }

  /** The same, to which mounts add nothing: its own list is its spawner's word on what it may use. */
  fixed(): Permissions {
    return this.#with({ fixed: true });
  }

  /** With the rights that come with a mount at this path. They are undone with it, and not saved. */
  withMount(path: string, texts: readonly string[]): Permissions {
    if (this.#parts.fixed) return this;
    return this.#with({ mounts: new Map(this.#parts.mounts).set(path, texts.map(parseRule)) });
  }

  withoutMount(path: string): Permissions {
    const mounts = new Map(this.#parts.mounts);
    return mounts.delete(path) ? this.#with({ mounts }) : this;
  }

  /** The rules these texts are. INVALID as in `of`. */
  rules(texts: readonly string[]): readonly Rule[] {
    return knownRules(texts, this.#facts);
  }

  /**
   * With these rules more, and without the deny rules that are the same: those of its spawn and of PID 0 only
   * PID 0 takes back, those of a process only that one and PID 0. `lift`: nobody stands above any more, and
   * what its ancestors had is widened with it.
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
      revoked: revoked.filter(
        (entry) => !includesRule(rules, entry.rule) || (by !== null && by !== entry.by),
      ),
      above: o.lift ? above.map(plus) : above,
      denyAbove: o.lift ? others(denyAbove) : denyAbove,
    });
  }

  /** Without what these rules cover: each is a deny rule from now on, until the same rule is granted. */
  revoke(rules: readonly Rule[], by: Grantor): Permissions {
    const { deny, revoked } = this.#parts;
    if (by === null)
      return this.#grown({ deny: [...deny, ...rules.filter((rule) => !includesRule(deny, rule))] });
    const known = [...deny, ...revoked.map((entry) => entry.rule)];
    const fresh = rules.filter((rule) => !includesRule(known, rule)).map((rule) => ({ rule, by }));
    return this.#grown({ revoked: [...revoked, ...fresh] });
  }

  /** Why it does not hold this rule, as one sentence to show; null when it does. */
  lacks(rule: Rule): string | null {
    const denying = this.#denials.find((denied) => contains(denied, rule, this.#facts));
    if (denying) return `the deny rule ${denying.text} forbids it`;
    return this.#holds(rule) ? null : `what it may use is ${this.allowedTools().join(", ") || "nothing"}`;
  }

  /** Of what another list names, what is not held, or not there at all. */
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

  /** Whether any of the tools that can be used, or of their inputs, is one that the rule means. */
  touches(rule: Rule): boolean {
    return this.#facts.tools.some((tool) => touchesTool(rule, tool) && this.showsTool(tool.name));
  }

  covers(call: Call): boolean {
    return "rule" in this.decide(call);
  }

  /** Why a call is not covered, as one sentence to show; null when it is. */
  refusal(call: Call): string | null {
    const decision = this.decide(call);
    return "refusal" in decision ? decision.refusal : null;
  }

  /** The same of a tool that the process calls, whatever it is shown. */
  toolRefusal(name: string, subject: string): string | null {
    const path = this.#facts.tools.find((tool) => tool.name === name)?.path ?? "";
    return this.refusal({ tool: name, path, subject });
  }

  /**
   * Why this call may not have a file that its driver has opened, as one sentence to show; null when it may. `also`:
   * tools whose deny patterns count for it too, as what Read may not read is not searched either.
   */
  refusalOfOpened(call: Call & { opened: string }, also: readonly string[]): string | null {
    const view = new CallView(call, this.#facts);
    const denying = deniedTo(this.#denials, also, view);
    if (denying) return denialOf(denying);
    const decision = this.#decide(view);
    return "refusal" in decision ? decision.refusal : null;
  }

  decide(call: Call): Decision {
    return this.#decide(new CallView(call, this.#facts));
  }

  #decide(view: CallView): Decision {
    const denying = this.#denials.find((rule) => denies(rule, view));
    if (denying) return { refusal: denialOf(denying) };
    const rule = coveredBy(this.#own, view);
    if (rule === null) return { refusal: refusalOf(this.#own, view) };
    const limit = this.#limits.find((layer) => coveredBy(layer, view) === null);
    return limit ? { refusal: refusalOf(limit, view) } : { rule };
  }

  /** Whether any input of this tool could be covered: whether it is worth showing. */
  showsTool(name: string): boolean {
    const tool = this.#facts.tools.find((candidate) => candidate.name === name);
    if (!tool) return false;
    if (this.#denials.some((rule) => coversWholeTool(rule, tool))) return false;
    return this.#limits.every((layer) => layer.some((rule) => touchesTool(rule, tool)));
  }

  /** The tools that can be used, for people: `Read`, and with conditions `Bash(git *)`. */
  allowedTools(): string[] {
    const shown = this.#facts.tools.filter((tool) => this.showsTool(tool.name));
    return [...new Set(shown.flatMap((tool) => this.#describe(tool)))].sort();
  }

  /** What is denied, by whomever: nothing of it can be used, whatever is allowed. */
  deniedTools(): string[] {
    return [...new Set(this.#denials.map((rule) => rule.text))].sort();
  }

  /** The devices that are covered whole, whatever is done with them. */
  allowedDevices(): string[] {
    return this.#facts.devices
      .filter((device) => this.#limits.every((layer) => layer.some((rule) => coversDevice(rule, device))))
      .filter((device) => !this.#denials.some((rule) => this.#touchesDevice(rule, device)))
      .toSorted();
  }

  /** Everything there is to save, as one unit. */
  record(): PermissionRecord {
    const { own, deny, revoked, above, denyAbove, fixed } = this.#parts;
    return {
      allow: [own, ...above].map(textsOf),
      deny: textsOf(deny),
      ...(revoked.length > 0 && { revoked: revoked.map(({ rule, by }) => ({ rule: rule.text, by })) }),
      ...(denyAbove.length > 0 && { deny_above: textsOf(denyAbove) }),
      ...(fixed && { fixed }),
    };
  }

  #with(change: Partial<Rights>): Permissions {
    return new Permissions({ ...this.#parts, ...change }, this.#facts);
  }

  #grown(change: Partial<Rights>): Permissions {
    const grown = this.#with(change);
    const { own, deny, revoked } = grown.#parts;
    const rules = own.length + deny.length + revoked.length;
    if (rules > MAX_OWN_RULES) {
      throw new SyscallError(
        "EXHAUSTED",
        `A process may have ${MAX_OWN_RULES} rules of its own, and this would be ${rules}.`,
      );
    }
    return grown;
  }

  #describe(tool: ToolFacts): string[] {
    const conditional = this.#limits.find((layer) => !layer.some((rule) => coversWholeTool(rule, tool)));
    if (!conditional) return [tool.name, ...this.#protectedRules(tool)];
    return conditional.filter((rule) => touchesTool(rule, tool)).map((rule) => rule.text);
  }

  /** Rules that a tool which is allowed whole is not enough for. */
  #protectedRules(tool: ToolFacts): string[] {
    const own = this.#own.filter((rule) => rule.kind === "pattern" && rule.name === tool.name);
    const facts = this.#facts;
    return textsOf(own.filter((rule) => namesProtected(rule, facts) && this.#holds(rule)));
  }

  #holds(rule: Rule): boolean {
    return this.#limits.every((layer) => layer.some((own) => allowsAll(own, rule, this.#facts)));
  }

  #touchesDevice(rule: Rule, device: string): boolean {
    if (rule.kind === "all") return true;
    if (rule.kind === "device") return coversDevice(rule, device) || liesBelow(rule, device);
    return this.#facts.tools.some((tool) => isAtOrBelow(tool.path, device) && touchesTool(rule, tool));
  }
}

/** The initial state of a process: no rules of its own, and no parent. */
const FRESH: Rights = {
  own: [],
  mounts: new Map(),
  fixed: false,
  deny: [],
  revoked: [],
  above: [],
  denyAbove: [],
};

function denialOf(rule: Rule): string {
  return `The deny rule ${rule.text} forbids it.`;
}

/** What a list has to say about a call that it does not cover. */
function refusalOf(layer: Layer, view: CallView): string {
  const { call, kind, commandLine, protection } = view;
  if (protection) return protectedRefusal(view, protection);
  const near = layer.filter((rule) => rule.kind === "pattern" && rule.name === call.tool);
  if (near.length > 0) {
    const why = kind === "command" ? whyUncoverable(commandLine) : null;
    return `Only ${textsOf(near).join(", ")} is allowed.${why === null ? "" : ` ${why}`}`;
  }
  return `${call.tool ?? call.path} is not among the allowed tools.`;
}

/** Only a rule that names the path allows it, and this one would. */
function protectedRefusal({ call, device, targets }: CallView, { folder, reader }: Protection): string {
  const does = reader === "git" ? "git runs what is written there" : "Rnix loads what is written there";
  const target = targets.at(-1) ?? { absolute: [], relative: null };
  const path = target.relative?.join("/") ?? `/${target.absolute.join("/")}`;
  const rule = call.tool === null ? `${device}/${path}` : `${call.tool}(${path})`;
  return `${folder} is protected, as ${does}. Only a rule that names it allows this: ${rule}.`;
}

function includesRule(layer: Layer, rule: Rule): boolean {
  return layer.some(({ text }) => text === rule.text);
}

function textsOf(layer: Layer): string[] {
  return layer.map((rule) => rule.text);
}
