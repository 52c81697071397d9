/** The part of a process's rights that says which of the calls that the rules allow a person decides. */

import { lstatSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type AskMode, stricterMode } from "../../lib/ask-modes.ts";
import { climbsBehind, realOrSame } from "../../lib/inner-path.ts";
import { type Taint, taintingDevice } from "../../lib/taint.ts";
import { beginsAsOption, MARK, namesIn, type Word } from "../../shell/lexer.ts";
import type { PermissionRecord } from "../../store/runs/schema.ts";
import type { CallView } from "./call-view.ts";
import { fitsPattern, sweepingOption } from "./command-kinds.ts";
import { coveredBy, deniedTo, denies, type Layer, namesTool, textsOf } from "./coverage.ts";
import { isHarmless, isHarmlessScript } from "./harmless-commands.ts";
import { assignsMore, type Need, needsOf } from "./line-needs.ts";
import { linksBelow } from "./links-below.ts";
import { parseRule, type Rule } from "./rule.ts";
import { evaluatingBuiltin, mayEvaluateCode, type SimpleCommand } from "./shell-words.ts";
import { fileOf, type Variables, variablesOf } from "./word-values.ts";

/** The name of a mode in place of a rule. */
export function modeName(mode: AskMode): string {
  return `the mode ${mode}`;
}

/** The mode plan refuses the call: no person is asked, and no "always" counts. */
export const PLAN = modeName("plan");

/** The names of the policy of a tainted run in place of a rule. */
export const TAINT_ASKED = "taint: ask";
/** The call is refused: no person is asked. */
export const TAINT_REFUSED = "taint: refuse";

/** The ask rules of a process and of its ancestors, and the rules that a person has allowed. */
export interface AskRights {
  rules: Layer;
  mode: AskMode;
  /** Calls that these cover are not asked for. */
  always: Layer;
  /** Command lines that no mode asks for. */
  approved: readonly string[];
  /** The process has read text of others. */
  taint: Taint | undefined;
}

interface Match {
  /** The ask rule, or the name of the mode. */
  rule: string;
  /** A clause that follows "asked because". */
  why: string;
}

/** The other rules of the process, for the files that a command reads and writes. */
export interface AskPorts {
  denies(view: CallView): boolean;
  allows(view: CallView): boolean;
  /** The allow list of the process: for a tainted process, a pattern in it replaces a question. */
  own: Layer;
}

/** What a person must be asked about one call. */
export interface Asked {
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
  "ask" | "ask_above" | "ask_mode" | "ask_mode_above" | "always" | "approved" | "taint"
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
  /** The checks that its user gave. A child has none of them. */
  approved: readonly string[];
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
    const { own, above, mode, modeAbove, always, alwaysInProject, approved, taint } = parts;
    this.rights = {
      taint,
      approved,
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
      approved: record.approved ?? [],
      taint: record.taint,
    });
  }

  record(): AskRecord {
    const { own, above, mode, modeAbove, always, approved, taint } = this.#parts;
    return {
      ...(own.length > 0 && { ask: textsOf(own) }),
      ...(above.length > 0 && { ask_above: textsOf(above) }),
      ...(mode !== "off" && { ask_mode: mode }),
      ...(modeAbove !== "off" && { ask_mode_above: modeAbove }),
      ...(always.length > 0 && { always: textsOf(always) }),
      ...(approved.length > 0 && { approved: [...approved] }),
      ...(taint && { taint }),
    };
  }

  /** The layers of a child without ask rules and a mode of its own. */
  below(): AskLayers {
    const { own, above, mode, approved } = this.#parts;
    if (own.length === 0 && mode === "off" && approved.length === 0) return this;
    const modeAbove = this.rights.mode;
    return this.#with({ own: [], above: union(above, own), mode: "off", modeAbove, approved: [] });
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

  approving(lines: readonly string[]): AskLayers {
    return lines.length === 0 ? this : this.#with({ approved: lines });
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

function union(layer: Layer, more: Layer): Layer {
  const fresh = more.filter(({ text }) => !layer.some((rule) => rule.text === text));
  return fresh.length === 0 ? layer : [...layer, ...fresh];
}

/**
 * Returns why a person is asked about the call, where no "always" has answered; empty when there is nothing to ask. A call
 * that can't be decided is asked for. Of a command line each command is decided by itself.
 */
function askedBy(all: AskRights, view: CallView, ports: AskPorts): Match[] {
  const found = askedByRules(all, view, ports);
  const { taint } = all;
  if (taint === undefined || taint.policy === "off") return found;
  return taint.policy === "ask" && found.length > 0
    ? found
    : [...found, ...askedByTaint(all, taint, view, ports)];
}

/** What a tainted process is asked for: what acts outside or lasts, and no rule names. What only reads is not asked. */
function askedByTaint({ always }: AskRights, taint: Taint, view: CallView, ports: AskPorts): Match[] {
  const { tool, runsCommand } = view;
  if (tool?.readOnly || (runsCommand && taint.confined)) return [];
  if (taint.device !== undefined && taintingDevice(view.call.path) === taint.device) return [];
  const named = ports.own.filter(
    (rule) => rule.kind === "pattern" || (rule.kind === "tool" && !runsCommand && rule.name === tool?.name),
  );
  const answered = [...always, ...named];
  const rights: AskRights = { rules: [], mode: "edits", always: answered, approved: [], taint: undefined };
  const matches = askedByRules(rights, view, ports);
  if (tool?.lasting && coveredBy(always, view) === null)
    matches.push(ofMode("edits", `\`${tool.name}\` writes what later runs read`));
  const rule = taint.policy === "refuse" ? TAINT_REFUSED : TAINT_ASKED;
  const read = `the run has read text of others (${taint.origin}: ${taint.source})`;
  return matches.map(({ why }) => ({ rule, why: `${why}, and ${read}` }));
}

function askedByRules(all: AskRights, view: CallView, ports: AskPorts): Match[] {
  const { mode, always } = all;
  const rules = all.rules.filter((rule) => mayName(rule, view.call.tool));
  // Most runs have ask rules for a few tools only: a command line is not parsed for these.
  if (rules.length === 0 && mode === "off") return [];
  if (view.runsCommand && view.call.tool !== null) {
    const { commandLine } = lineOf(view);
    const isApproved = all.approved.includes(view.call.subject ?? "");
    const isFree =
      mode === "off" || !isOutsideTool(view) || (mode !== "plan" && (view.staysInside || isApproved));
    const needs = isFree ? [] : needsIn(view, all, ports);
    if (mode === "plan" && needs.some(({ isRead }) => !isRead)) return [ofPlan(view)];
    if (commandLine === null && coveredBy(always, view) !== null) return [];
    const folders = foldersOf(view);
    const found =
      commandLine?.flatMap((command) =>
        isAnswered(always, view, { command, folders })
          ? []
          : rules.filter((rule) => asksFor(rule, view, command)).map(ofRule),
      ) ?? rules.filter((rule) => denies(rule, view)).map(ofRule);
    return [...found, ...needs.map(({ why }) => ofMode(mode, why))];
  }
  if (mode === "plan" && mayChange(view)) return [ofPlan(view)];
  const matching = rules.filter((rule) => denies(rule, view)).map(ofRule);
  // What only reads may reach a network, also in the mode plan.
  if (mode !== "off" && isOutside(view)) matching.push(ofMode(mode, whyOutside(view)));
  return matching.length > 0 && coveredBy(always, view) === null ? matching : [];
}

function ofRule({ text }: Rule): Match {
  return { rule: text, why: `of the ask rule ${text}` };
}

function ofMode(mode: AskMode, why: string): Match {
  return { rule: modeName(mode === "edits" ? "edits" : "outside"), why };
}

function ofPlan({ tool, call }: CallView): Match {
  return { rule: PLAN, why: `\`${tool?.name ?? call.path}\` may change something in the mode plan` };
}

function whyOutside({ call, tool, kind }: CallView): string {
  if (tool === undefined) return `it opens ${call.path} itself`;
  if (kind === "path")
    return `\`${tool.name}\` ${tool.readOnly ? "reads" : "changes"} a file outside the project`;
  return `\`${tool.name}\` may ${tool.readOnly ? "reach the network" : "change something outside the project"}`;
}

/** Returns what a person has to decide of a command line in a mode, and these rules don't answer. */
export function needsIn(view: CallView, { rules, mode, always }: AskRights, ports: AskPorts): Need[] {
  // The mode plan refuses what changes something: no "always" counts.
  const isPlan = mode === "plan";
  const answers = isPlan ? [] : always;
  const needs = needsOf(view, (file, access) => {
    if (access === "write" && isPlan) return "in the mode plan";
    if (coveredBy(always, file) !== null) return null;
    if (!file.isInFolders) return "outside the project";
    const asking = rules.find((rule) => rule.kind !== "all" && denies(rule, file));
    if (asking) return `for which there is the ask rule ${asking.text}`;
    if (access === "write" ? ports.allows(file) : !ports.denies(file)) return null;
    return `which ${access === "write" ? "Write may not change" : "a rule denies"}`;
  });
  const mayEdit = mode === "edits" && !changesFolder(view.commandLine ?? []);
  return needs.filter(
    (need) => !(mayEdit && need.command && isEdit(need.command, view)) && !isAnswered(answers, view, need),
  );
}

/** Whether these rules allow this command of a line, or the whole line. */
export function isAnswered(
  always: Layer,
  view: CallView,
  { command, folders = null }: Pick<Need, "command" | "folders">,
): boolean {
  return always.some((rule) => {
    if (rule.kind !== "pattern") return coveredBy([rule], view) !== null;
    if (command === undefined || rule.name !== view.tool?.name) return false;
    // What it reads and writes by `<` and `>` is decided as a file.
    const isWhole = command.words.length > 0 && rule.command.coversWords(command) && !assignsMore(command);
    const fits = isWhole && (rule.command.isExact || fitsPattern(command.words) || isHarmless(command));
    return fits && (isHarmless(command) || coversFiles(rule, command, folders, view));
  });
}

/** Where the commands of a line may run; null: in any folder. */
export function foldersOf(view: CallView): readonly string[] | null {
  let folders = [view.cwd];
  for (const { words } of view.commandLine ?? []) {
    const [first, target, ...more] = words;
    if (!first || !(first.dynamic || MOVERS.has(first.text))) continue;
    const isPlain = first.text === "cd" && target && more.length === 0 && !/^[-~]/.test(target.text);
    if (!isPlain || target.dynamic || climbsBehind(target.text) || folders.length > MAX_FOLDERS) return null;
    const entered = folders.map((folder) => resolve(folder, target.text));
    folders = [...new Set([...folders, ...entered, ...entered.map(realOrSame)])];
  }
  return folders;
}

const MAX_FOLDERS = 16;

/** Returns the ask rules of these tools that match the opened file, and that no "always" has answered. */
function askedForOpened({ rules, always }: AskRights, tools: readonly string[], view: CallView): Match[] {
  const matching = rules.filter((rule) => deniedTo([rule], tools, view) !== undefined);
  if (matching.length === 0) return [];
  const allowed = always.filter((rule) => rule.kind === "pattern").filter(({ name }) => tools.includes(name));
  const covered = view.targets.every((target) => allowed.some(({ path }) => path.covers(target)));
  return covered ? [] : matching.map(ofRule);
}

/** Whether the rule can match a call of this tool. null: a device is opened itself. */
function mayName(rule: Rule, tool: string | null): boolean {
  if (tool === null) return true;
  if (rule.kind === "pattern") return rule.name === tool;
  return rule.kind !== "tool" || namesTool(rule, tool);
}

/** The commands of a line that is understood as a whole. */
function lineOf(view: CallView): { commandLine: readonly SimpleCommand[] | null } {
  if (view.kind !== "command" || view.commandLine === null) return { commandLine: null };
  return { commandLine: mayEvaluateCode(view.commandLine) ? null : view.commandLine };
}

function asksFor(rule: Rule, view: CallView, command: SimpleCommand): boolean {
  if (rule.kind !== "pattern") return denies(rule, view);
  return rule.name === view.tool?.name && rule.command.mayBe(command);
}

/** Whether the call may write files or act outside. A tool that only reads does neither. */
function mayChange(view: CallView): boolean {
  const isReadOnly = view.call.tool === null ? view.call.readOnly : view.tool?.readOnly;
  return isReadOnly !== true && (view.kind === "path" || isOutside(view));
}

/** A tool for files is asked for outside the project and the folders that are open to it. */
function isOutside(view: CallView): boolean {
  const { call, kind } = view;
  if (call.tool === null) return view.toolsThere.some(({ outside }) => outside) && call.readOnly !== true;
  if (kind !== "path") return isOutsideTool(view);
  return (!view.writes && isOutsideTool(view)) || !view.isInFolders;
}

function isOutsideTool({ tool }: CallView): boolean {
  return tool?.outside === true;
}

/** Programs with the letters of their known options. A recursive rm is asked for: it takes what no undo brings back. */
const EDITORS: ReadonlyMap<string, RegExp> = new Map([
  ["cp", /^-[aRrfpvn]+$/],
  ["mkdir", /^-[pv]+$/],
  ["mv", /^-[fvn]+$/],
  ["rm", /^-[fvd]+$/],
  ["rmdir", /^-[pv]+$/],
  ["sed", /^-(?:[nErsz]*i|[nErsz]+|-in-place)$/],
  ["touch", /^-[acm]+$/],
]);

/** Commands after which relative paths mean other files. */
const MOVERS: ReadonlySet<string> = new Set(["cd", "pushd", "popd", "chdir"]);

function changesFolder(line: readonly SimpleCommand[]): boolean {
  return line.some(({ words: [first] }) => first && (first.dynamic || MOVERS.has(first.text)));
}

/** Returns true when each word is known, and each path is below the project's folder and not protected. */
function isEdit(command: SimpleCommand, view: CallView): boolean {
  if (command.assigns || evaluatingBuiltin(command) !== null) return false;
  const [first, ...args] = command.words;
  const options = first === undefined || first.dynamic ? undefined : EDITORS.get(first.text);
  if (options === undefined) return false;
  const operands = args.filter(({ text }) => !text.startsWith("-"));
  const isKnown = args.every((word) => !word.dynamic && (operands.includes(word) || options.test(word.text)));
  const [script, ...files] = operands;
  const isSed = first?.text === "sed";
  if (isSed && (script === undefined || !isHarmlessScript("sed", script.text))) return false;
  const paths = isSed ? files : operands;
  if (!isKnown || paths.length === 0 || !paths.every(({ text }) => view.isFileOfProject(text))) return false;
  const moved = /^(?:mv|cp)$/.test(first?.text ?? "") ? paths.slice(0, -1) : [];
  const at = resolve(view.cwd, paths.at(-1)?.text ?? "");
  // `cp` writes through the links that are already in the folder.
  const overwritten = first?.text === "cp" ? moved.map(({ text }) => join(at, basename(text))) : [];
  return ![...moved.map(({ text }) => resolve(view.cwd, text)), ...overwritten].some(holdsLinks);
}

/** Programs whose operands are files that they change. */
const FILE_PROGRAMS = namesIn("rm rmdir mv cp ln touch mkdir chmod chown tee truncate shred unlink find");

/** Subcommands of git whose words name nothing outside of the repository. */
const IN_REPOSITORY = namesIn(
  "add branch checkout cherry-pick clean commit merge mv rebase reset restore revert rm stash switch tag",
);

/**
 * Whether a rule of an "always" covers what the command works on in each of these folders: the project and the run's other
 * folders, unless the rule itself names a path from the root. Of programs that change the files that they are given, the
 * project's files alone; `-r` of `rm` must be in the rule, too.
 */
function coversFiles(
  rule: Rule & { kind: "pattern" },
  { words: [first, ...args] }: SimpleCommand,
  folders: readonly string[] | null,
  view: CallView,
): boolean {
  const program = basename(first?.text ?? "");
  if (program === "xargs") return !args.some(({ text }) => FILE_PROGRAMS.has(basename(text)));
  if (/ \//.test(rule.text)) return true;
  if (!FILE_PROGRAMS.has(program)) {
    const isBound = rule.command.isExact || (program === "git" && IN_REPOSITORY.has(args[0]?.text ?? ""));
    const variables = variablesOf(view.commandLine ?? []);
    const paths = [".", ...(isBound ? [] : args.flatMap((word) => pathsIn(word, variables)))];
    const isInside = (path: string | null, folder: string): boolean =>
      path !== null && !climbsBehind(path) && view.forFile("Write", path, folder).isInFolders;
    return folders?.every((folder) => paths.every((path) => isInside(path, folder))) === true;
  }
  const sweeping = sweepingOption(program, args);
  if (sweeping && !rule.text.split(/[ ()]/).some((word) => sweeping.test(word))) return false;
  return args.every((word) =>
    /^-/.test(word.form)
      ? /^--?[\w-]*$/.test(word.form)
      : folders?.every((folder) => isOfProject(word, program, view.forFile("Write", "", folder))),
  );
}

/** Returns what a program may take for a path: the word, and the value of its option. null stands for a path that is not known. */
function pathsIn(word: Word, variables: Variables): (string | null)[] {
  const text = word.dynamic ? fileOf(word, variables) : word.text;
  if (text === null) return [null];
  return [text, /=(.*)/s.exec(text)?.[1], /^-\w(.*)/s.exec(text)?.[1]].filter((path) => path !== undefined);
}

/** A pattern may name files of one folder. Only `rm` has no option with a path, which a file's name could be. */
function isOfProject(word: Word, program: string, view: CallView): boolean {
  const { form } = word;
  const isNames = form.includes(MARK.glob) && !form.includes("/", form.indexOf(MARK.glob));
  const folder = isNames && (program === "rm" || !beginsAsOption(form)) ? fileOf(word, new Map()) : null;
  const path = word.dynamic ? folder && join(folder, "x") : word.text;
  if (path === null || !view.isFileOfProject(path)) return false;
  return !/^(?:mv|cp)$/.test(program) || !holdsLinks(resolve(view.cwd, word.dynamic ? dirname(path) : path));
}

/** In another folder, a relative link leads elsewhere. */
function holdsLinks(path: string): boolean {
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink();
  return isLink === true || linksBelow(path, ["*"], true)?.length !== 0;
}
