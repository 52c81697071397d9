/** Whether a rule covers another, what a rule reaches, and the tools of a namespace as rules see them. */

import { isLimited } from "../../proxy/host-rules.ts";
import { isWhole, type Sandbox } from "../../sandbox/policy.ts";
import type { DeviceEntry, NamedTool, Namespace } from "../../vfs/namespace.ts";
import { type CallView, type Facts, isAtOrBelow, type ToolFacts } from "./call-view.ts";
import { coversLine, deniesLine } from "./command-pattern.ts";
import {
  isAbove,
  isWild,
  matchesBelow,
  matchPath,
  matchText,
  type PathSegments,
  segments,
  startsWith,
} from "./glob.ts";
import { namesProtected, type Protection } from "./protected-paths.ts";
import type { Rule } from "./rule.ts";

export type Layer = readonly Rule[];

export function textsOf(layer: Layer): string[] {
  return layer.map(({ text }) => text);
}

/** Returns the rule that covers the call, or the rules that do together; null when none does. */
export function coveredBy(layer: Layer, view: CallView): string | null {
  if (view.protection) return coversProtected(layer, view);
  const alone = layer.find((rule) => rule.kind !== "pattern" && covers(rule, view));
  return alone ? alone.text : patternsCover(layer, view);
}

/** Each target needs a rule of its own; a protected target needs a rule that names it. */
function coversProtected(layer: Layer, view: CallView): string | null {
  const used = view.targets.map((target, i) => {
    const protection = view.protections[i] ?? null;
    return layer.find((rule) => coversTarget(rule, target, protection, view))?.text;
  });
  return used.includes(undefined) ? null : [...new Set(used)].join(", ");
}

function coversTarget(
  rule: Rule,
  target: PathSegments,
  protection: Protection | null,
  view: CallView,
): boolean {
  if (rule.kind === "pattern") {
    if (rule.name !== view.tool?.name || !rule.path.covers(target)) return false;
    return protection === null || rule.path.names(target, protection);
  }
  if (!covers(rule, view)) return false;
  if (protection === null) return true;
  if (rule.kind !== "device" || target.relative === null) return false;
  const path = [...segments(view.device), ...target.relative];
  if (!(rule.glob ? matchPath(rule.segments, path) : startsWith(path, rule.segments))) return false;
  return namesProtected(rule.segments, path, protection, target.absolute.length - path.length);
}

function covers(rule: Exclude<Rule, { kind: "pattern" }>, view: CallView): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind === "tool") return view.tool !== undefined && namesTool(rule, view.tool.name);
  if (!rule.glob)
    return isAtOrBelow(view.device || view.call.path, rule.text) || everyPath(view, rule.segments);
  return everyPath(view, rule.segments) || matchesAllBelow(rule.segments, view.device);
}

/** Several patterns of one tool can cover a call together: one for each command of a line. */
function patternsCover(layer: Layer, view: CallView): string | null {
  const { tool, kind } = view;
  if (!tool) return null;
  const rules = layer.filter((rule) => rule.kind === "pattern").filter((rule) => rule.name === tool.name);
  if (rules.length === 0) return null;
  const covered =
    kind === "command"
      ? coversLine(
          rules.map(({ command }) => command),
          view.commandLine,
        )
      : view.targets.length > 0 &&
        view.targets.every((target) =>
          rules.some(
            ({ path }) => path.covers(target) || (asksForEachFile(view) && path.coversBelow(target)),
          ),
        );
  return covered ? textsOf(rules).join(", ") : null;
}

/** Returns true when the call only names the start of a search: each file that it reaches is decided separately. */
function asksForEachFile({ tool, call }: CallView): boolean {
  return tool?.filters === true && call.opened === undefined;
}

/** Returns true when a folder with denied files is denied too: unless each file is decided separately. */
function deniesFromAbove(view: CallView): boolean {
  return view.call.opened === undefined && !asksForEachFile(view);
}

/** A call that can't be decided counts as denied. */
export function denies(rule: Rule, view: CallView): boolean {
  const { tool } = view.call;
  switch (rule.kind) {
    case "all":
      return true;
    case "device":
      return deviceDenies(rule, view);
    case "tool":
      // Opened raw, a device can do what this tool does.
      if (tool === null) return view.toolsThere.some(({ name }) => namesTool(rule, name));
      return namesTool(rule, tool);
    case "pattern":
      if (tool === null) return view.toolsThere.some(({ name }) => name === rule.name);
      return tool === rule.name && patternDenies(rule, view);
  }
}

function patternDenies(rule: Rule & { kind: "pattern" }, view: CallView): boolean {
  if (view.kind === "command") return deniesLine(rule.command, view.commandLine);
  if (view.kind === undefined || view.targets.length === 0) return true;
  const fromAbove = deniesFromAbove(view);
  return view.targets.some(
    (target) => rule.path.denies(target) || (fromAbove && rule.path.deniesBelow(target)),
  );
}

/** Returns the first rule whose pattern denies the opened file to one of the tools. */
export function deniedTo(layer: Layer, tools: readonly string[], view: CallView): Rule | undefined {
  const patterns = layer.filter((rule) => rule.kind === "pattern").filter(({ name }) => tools.includes(name));
  return patterns.find(({ path }) => view.targets.some((target) => path.denies(target)));
}

function deviceDenies(rule: Rule & { kind: "device" }, view: CallView): boolean {
  const { path: asked, tool, opened } = view.call;
  if (isAtOrBelow(asked, rule.text)) return true;
  // A device that is opened raw at its root accepts any path.
  const anyPath = tool === null && opened === undefined && asked === view.device;
  if (anyPath && liesBelow(rule, view.device)) return true;
  const fromAbove = deniesFromAbove(view);
  const wanted = rule.segments.map((part) => part.toLowerCase());
  return view.devicePaths.some((path) => {
    if (path === null) return view.device === "" || liesBelow(rule, view.device);
    const folded = path.map((part) => part.toLowerCase());
    if (matchPath(wanted, folded) || (!rule.glob && startsWith(folded, wanted))) return true;
    return fromAbove && isAbove(folded, wanted);
  });
}

function everyPath(view: CallView, pattern: readonly string[]): boolean {
  const glob = pattern.some(isWild);
  const below = asksForEachFile(view);
  return view.devicePaths.every((path) => {
    if (path === null) return false;
    const fits = glob ? matchPath(pattern, path) : startsWith(path, pattern);
    return fits || (below && matchesBelow(pattern, path));
  });
}

export function namesTool(rule: { name: string; glob: boolean }, name: string): boolean {
  return rule.glob ? matchText(rule.name, name) : rule.name === name;
}

/** Returns true when the pattern ends in `**` and its other segments match the device or a path above it. */
function matchesAllBelow(pattern: readonly string[], device: string): boolean {
  if (device === "" || pattern.at(-1) !== "**") return false;
  const parts = segments(device);
  return [[], ...parts.map((_, i) => parts.slice(0, i + 1))].some((above) =>
    matchPath(pattern.slice(0, -1), above),
  );
}

/** Returns true when the rule covers every use of this device, by any tool. */
export function coversDevice(rule: Rule, device: string): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind !== "device") return false;
  return rule.glob ? matchesAllBelow(rule.segments, device) : isAtOrBelow(device, rule.text);
}

export function coversWholeTool(rule: Rule, tool: ToolFacts): boolean {
  if (rule.kind === "tool") return namesTool(rule, tool.name);
  return coversDevice(rule, tool.path);
}

export function touchesTool(rule: Rule, tool: ToolFacts): boolean {
  if (rule.kind === "pattern") return rule.name === tool.name;
  return coversWholeTool(rule, tool) || (rule.kind === "device" && liesBelow(rule, tool.path));
}

/** Returns true when some path at or below the device could match the rule. */
export function liesBelow(rule: Rule & { kind: "device" }, device: string): boolean {
  for (const [i, part] of segments(device).entries()) {
    const wanted = rule.segments[i];
    if (wanted === "**") return true;
    if (wanted === undefined || !matchText(wanted, part)) return false;
  }
  return true;
}

/** A character that no tool's name has: only a star takes it. */
const ANY = "\u{1}";

/** Every tool whose name begins with the prefix, and every device below the path. */
export function coversMount(rule: Rule, prefix: string, path: string): boolean {
  if (rule.kind === "tool") return rule.glob && matchText(rule.name, prefix + ANY);
  return coversDevice(rule, path);
}

/** Some tool whose name begins with the prefix could fit the rule. */
export function touchesMount(rule: Rule, prefix: string, path: string): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind === "device") return coversDevice(rule, path) || liesBelow(rule, path);
  const [head = ""] = rule.name.split("*");
  const isGlob = rule.kind === "tool" && rule.glob;
  return rule.name.startsWith(prefix) || (isGlob && (prefix.startsWith(head) || head.startsWith(prefix)));
}

type Offered = Pick<Facts, "tools" | "devices">;

/** Lists the tools and devices of a namespace. Namespaces with the same devices share the lists. */
export function factsOf(namespace: Namespace): Offered {
  return lists.getOrInsertComputed(namespace.entries(), (entries) => ({
    tools: namespace.tools().map((named) => facts.getOrInsertComputed(named, factOf)),
    devices: entries.map(({ path }) => path),
  }));
}

const lists = new WeakMap<readonly DeviceEntry[], Offered>();

/** Whether no command of the run can leave its sandbox. */
export function confinedFact(opts: {
  confinement?: Pick<Sandbox, "mechanism"> | undefined;
  network?: string[] | undefined;
}): Pick<Facts, "confined"> {
  const { confinement, network } = opts;
  return confinement && isWhole(confinement) && isLimited(network) ? { confined: true } : {};
}

/** Cached per tool, because the rights of every process refer to them. */
const facts = new WeakMap<NamedTool, ToolFacts>();

function factOf(named: NamedTool): ToolFacts {
  const { tool, entry } = named;
  return {
    name: tool.name,
    subject: tool.subject ?? tool.path,
    path: entry.path,
    readOnly: tool.annotations?.readOnlyHint === true,
    filters: tool.filters,
    outside: actsOutside(named),
    lasting: tool.lasting === true,
  };
}

/** Without hints, a tool that is not read-only may do anything, as MCP has it. The kernel's own tools do nothing outside. */
function actsOutside({ tool: { annotations = {} }, entry }: NamedTool): boolean {
  if (entry.layer === "kernel") return false;
  const { readOnlyHint, destructiveHint, openWorldHint } = annotations;
  if (openWorldHint === true || destructiveHint === true) return true;
  return readOnlyHint !== true && (openWorldHint === undefined || destructiveHint === undefined);
}
