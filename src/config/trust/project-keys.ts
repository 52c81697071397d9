/**
 * The table of a project's files and keys, and what each may do before the user trusts it. The loaders decide by this
 * table. `rnix trust --show` and docs/permissions.md are generated from it.
 */

import type { Setting } from "../../options/setting.ts";
import { AGENT_SETTINGS, SETTINGS } from "../../options/settings.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Tier } from "../config-sources.ts";
import type { TrustView } from "./trust.ts";

/**
 * - `reads`: a text or a name, without any other effect.
 * - `narrows`: counts when it is smaller than the user's own value, else it needs trust.
 * - `needs trust`: has no effect until the user trusts it.
 * - `yours alone`: only the user's own file can set it; in a project's file it is an error.
 */
const KEY_CLASSES = ["reads", "narrows", "needs trust", "yours alone"] as const;
type KeyClass = (typeof KEY_CLASSES)[number];

interface KeyRule {
  class: KeyClass;
  /** What applies until the project is trusted. */
  until: string;
}

export const PROJECT_KEYS = {
  ".rnix/config.yaml": {
    ...settingRules(),
    ask: { class: "narrows", until: "counts where it asks more than yours" },
    ...trusted("your own command or address is notified", "on_ask"),
    ...trusted("your value counts", "plugins_outside", "network", "taint", "sandbox", "sandbox_level"),
    ...trusted("you are asked for these calls; a rule of your own answer counts", "allow_always"),
    ...trusted("plugins get your settings alone", "plugins"),
    ...userOnly("secrets", "secrets.*.from", "secrets.*.hosts"),
    ...userOnly(
      ...["telemetry", "telemetry.endpoint", "telemetry.protocol"],
      ...["telemetry.service_name", "telemetry.content"],
      ...["dashboard", "dashboard.listen", "dashboard.port", "dashboard.hosts"],
    ),
  },
  ".rnix/providers.yaml": {
    ...trusted("your choice of provider counts", "default_provider"),
    ...trusted(
      "the provider keeps what you or the stock say; a new one cannot be used",
      ...["driver", "base_url", "api_key_env", "api_key_command", "default_model", "fallback", "extra"].map(
        (key) => `providers.*.${key}`,
      ),
    ),
    ...trusted(
      "window, output limit and price are yours, or those of known models; your price counts even after trust",
      "providers.*.models",
    ),
    ...limits("providers.*.concurrency", "providers.*.requests_per_minute"),
    ...userOnly("providers.*.allow_unconfined"),
  },
  "agents/*/agent.yaml": {
    name: { class: "narrows", until: "a name of yours or of the stock stays with that agent" },
    ...reads("description", "skills", "deferred_skills"),
    ...trusted("provider, model and effort are chosen without it", "models"),
    allowed_tools: { class: "narrows", until: "what it lists of Read, Glob, Grep, Plan, Skill and Complete" },
    ask: { class: "narrows", until: "the same: it only adds questions" },
    ...trusted("no server is mounted for it; a run that requires one is refused, exit 64", "mcp"),
    ...limits(...AGENT_SETTINGS),
    sandbox: { class: "narrows", until: "`required` counts" },
    network: { class: "reads", until: "the same: it only limits" },
    sandbox_level: { class: "narrows", until: "`read-only` counts" },
    ...trusted("a run with it is refused, exit 64", "checks"),
  },
  "agents/*/instructions.md": reads("text"),
  "skills/*/SKILL.md": {
    name: { class: "narrows", until: "a name of yours or of the stock stays with that skill" },
    ...reads("description", "allowed-tools", "text"),
  },
  "skills/*/scripts/**": trusted("the skill is left out", "content"),
  ".rnix/workflows/*.js": trusted("the workflow is listed, and not run", "content"),
  ".claude/workflows/*.js": trusted("the same", "content"),
  "plugins/**": trusted("the plugin is read, and never loaded", "content"),
  ".rnix/mcp.yaml": trusted("its servers do not exist", "servers"),
  ".mcp.json": trusted("its servers do not exist", "mcpServers"),
  ".rnix/init.yaml": trusted("nothing of it is started", "services", "supervisors"),
  "AGENTS.md": reads("text"),
  "CLAUDE.md": reads("text"),
  ".rnix/data/**": { records: { class: "reads", until: "shown; resumed only if your Rnix wrote them" } },
} as const satisfies Record<string, Record<string, KeyRule>>;

export type ProjectFile = keyof typeof PROJECT_KEYS;

/** The class of a key in a project's file. An unknown key needs trust. */
export function classOf(file: ProjectFile, key: string): KeyClass {
  const rules: Record<string, KeyRule> = PROJECT_KEYS[file];
  return (Object.hasOwn(rules, key) ? rules[key] : undefined)?.class ?? "needs trust";
}

/** Whether this value needs trust. `widens`: the value goes beyond the user's own. */
export function asksTrust(file: ProjectFile, key: string, widens = true): boolean {
  const kind = classOf(file, key);
  return kind === "needs trust" || kind === "yours alone" || (kind === "narrows" && widens);
}

/** The table, row by row. */
export function projectKeyRows(): { file: string; key: string; class: KeyClass; until: string }[] {
  return Object.entries(PROJECT_KEYS).flatMap(([file, rules]) =>
    Object.entries(rules).map(([key, rule]: [string, KeyRule]) => ({ file, key, ...rule })),
  );
}

/** The rules of all settings, from their table. */
function settingRules(): Record<string, KeyRule> {
  const rules = Object.entries<Setting>(SETTINGS).map(([key, { scope, smaller }]) => {
    if (scope === "user") return userOnly(key);
    return smaller === "is not safer" ? trusted("your value counts", key) : limits(key);
  });
  return Object.assign({}, ...rules);
}

function reads(...keys: string[]): Record<string, KeyRule> {
  return rulesOf(keys, { class: "reads", until: "the same" });
}

function limits(...keys: string[]): Record<string, KeyRule> {
  return rulesOf(keys, { class: "narrows", until: "counts where it is smaller than yours" });
}

function trusted(until: string, ...keys: string[]): Record<string, KeyRule> {
  return rulesOf(keys, { class: "needs trust", until });
}

function userOnly(...keys: string[]): Record<string, KeyRule> {
  return rulesOf(keys, { class: "yours alone", until: "an error, also after trust" });
}

function rulesOf(keys: readonly string[], rule: KeyRule): Record<string, KeyRule> {
  return Object.fromEntries(keys.map((key) => [key, rule]));
}

/** Where an agent or a skill is. It may not have been read yet. */
interface Source {
  name: string;
  /** Its path, or "embedded". */
  source: string;
  tier: Tier;
  isThere(): boolean;
  /** null when the file does not exist. */
  content(): string | null;
}

/** Returns the user's or stock one of the same name, if this one must not replace it; undefined if it may be used. */
export function outrankedBy<S extends Source>(
  found: Source,
  sameName: readonly S[],
  trust: TrustView,
): S | undefined {
  if (found.tier !== "project" || !found.isThere()) return undefined;
  const known = knownAmong(sameName);
  if (!known) return undefined;
  const takes = trust.allows({ file: found.source, parts: { name: found.name } }) && !isSame(found, known);
  return takes ? undefined : known;
}

/** Returns the first one that does not need trust. */
export function knownAmong<S extends Source>(sameName: readonly S[]): S | undefined {
  return sameName.find((one) => one.tier !== "project" && one.isThere());
}

/** One that can't be read counts as different. */
export function isSame(found: Source, known: Source): boolean {
  try {
    return found.content() === known.content();
  } catch (error) {
    if (error instanceof SyscallError) return false;
    throw error;
  }
}

/** Returns "your agent" or "the stock agent". */
export function ownerText({ tier }: Source, kind: "agent" | "skill"): string {
  return tier === "user" ? `your ${kind}` : `the stock ${kind}`;
}

export function notInPlaceOf({ name, source }: Source, known: Source, kind: "agent" | "skill"): string {
  return `${source} (it does not replace ${ownerText(known, kind)} ${name})`;
}
