/** A plugin: what a module exports. */

import type { CommandSpec } from "./command.ts";
import type { OpenContext } from "./context.ts";
import type { Device } from "./device.ts";
import type { MountType } from "./mount.ts";
import type { Services } from "./services.ts";

export interface Plugin {
  name: string;
  api?: 1;
  needs?: (keyof Services)[];
  /**
   * Names of the plugin's own keys, such as JIRA_TOKEN, for the service `secret`. Their values are in the caller's
   * environment or in `~/.config/rnix/env`. No tool gets them in its environment, and records have them redacted.
   */
  secrets?: string[];
  /** JSON Schema of the plugin's settings in config.yaml. */
  configSchema?: object;
  devices?: Record<string, Device>;
  mount?: MountType;
  /**
   * One part of the prompt's head, between AGENTS.md and the environment. Asked once at spawn, if the process may use one of
   * the plugin's tools. A resume keeps it, a fork asks again. null: nothing. A part that fails or takes more than 2 seconds
   * is left out with a notice. The context has no call, and `exec` fails: the process does not run yet.
   */
  prompt?(context: OpenContext, signal: AbortSignal): Promise<PromptPart | null>;
  /**
   * Drivers of the process have changed these files (absolute) in the tool calls of a step, which have ended. Asked before the
   * next step, if the process may use one of the plugin's tools. Returns a text of at most 8,192 characters, which the model
   * gets with the next step; null: nothing. One that fails or takes more than 5 seconds is logged. The context has no call.
   */
  filesChanged?(files: readonly string[], context: OpenContext, signal: AbortSignal): Promise<string | null>;
  commands?: CommandSpec[];
  dispose?(): Promise<void>;
}

/** A plugin's part of a prompt head. */
export interface PromptPart {
  /** One line, at most 100 characters. */
  title: string;
  /** At most 16,384 characters. */
  text: string;
}
