/** What a run is made of: its agent, skills, provider, mounts and limits. */

import type { ModelPrice } from "../plugin/index.ts";
import type { AgentOptions } from "./option-types.ts";
import type { RunSettings } from "./settings.ts";

/** A limit; null: none. */
export type Limit = number | null;

/** The limits of one run, by the names of the settings. Durations are in milliseconds, sizes in bytes. */
export type Limits = RunSettings;

/** A request to mount a source, such as an MCP server. */
export interface MountRequest {
  type: string;
  /** Letters, digits, ".", "_", "-", without "__": the last part of its path and the middle of its tools' names. */
  name: string;
  /** What the plugin is given; only data. */
  config: object;
  /** Maximum ms until it is ready. */
  timeoutMs?: number;
  /** False: a process has its own. By default those with the same project, config and environment share one. */
  shared?: boolean;
  /** False: a run starts without it, with a notice. */
  required?: boolean;
  /** Ms that the first step waits for an optional one that can't be loaded later; absent: until it is ready or has failed. */
  waitMs?: number;
  /** The agent takes whatever is there: without a notice, it is not mounted where it could not be used. */
  offered?: true;
  /** Its programs run outside of the sandbox and the network of the processes that use it. */
  sandbox?: "off";
}

export interface SkillInfo {
  name: string;
  description: string;
  /** The skill's folder, absolute; "" for an embedded one. */
  dir: string;
  /** What the skill's author lists; null when nothing is listed. Never widens a process's rights. */
  allowedTools: string[] | null;
  body(): Promise<string>;
  /** Paths of the files that come with it, relative to its folder. Absent: it has none. */
  files?(): Promise<string[]>;
  /** The text of one of them. Fails with NOT_FOUND for any other path. */
  file?(path: string): Promise<string>;
}

export interface AgentInfo extends AgentOptions {
  name: string;
  description: string;
  instructions: string;
  /** Loaded into the prompt's head. */
  skills: SkillInfo[];
  /** Shown by name and description; loaded by the Skill tool. */
  deferredSkills: SkillInfo[];
  /** "*" alone or in the list: all. Empty: none. */
  allowedTools: string[];
  /** Calls that a person decides. */
  ask?: string[];
  checks: string[];
  /** From where it was loaded: a path or "embedded". */
  source: string;
}

export interface ProviderChoice {
  /** The entry's name: what the user calls it. */
  name: string;
  /** /dev/llm/<driver>. */
  device: string;
  model: string;
  /** Handed to the driver as OpenContext.config. */
  config: { base_url?: string; key_source?: string; extra?: Record<string, unknown> };
  /** Identifies the queue of the provider and key. It is never the key itself. */
  gateKey: string;
  concurrency?: number;
  requestsPerMinute?: number;
  contextWindow?: number;
  /** The limit that the user has set for an answer. Every request has it. */
  maxOutput?: number;
  /** The longest answer that the model can write. Requests do not carry it. */
  outputLimit?: number;
  price?: ModelPrice;
  /** The provider is a program with tools of its own, to which the rights of the process do not apply. */
  unconfined?: boolean;
  /** The provider replays a recording: calls cost nothing and do not count towards the daily budget. */
  plays?: true;
  /** Why this one: "flag", "RNIX_PROVIDER", "agent.yaml", … */
  because: string;
  /** Set explicitly, by flag or variable. */
  byFlag?: boolean;
  /** Fallbacks in order, for a permanent failure of this one. */
  fallbacks?: readonly ProviderChoice[];
  /** The key, fetched when a driver asks. UNAVAILABLE if there is none. */
  secret(): Promise<string>;
  /** Fetches another key in place of the refused one; false when there is no other. Absent: it never changes. */
  renewSecret?(refused: string): Promise<boolean>;
}
