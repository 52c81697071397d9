/** Requests and answers about what a project can use: tools, agents, skills and providers. */

import { z } from "zod";
import type { GateStatus } from "../kernel/llm/model-gate.ts";
import type { RunLimits } from "../options/option-types.ts";
import type { Code, ModelPrice, ToolAnnotations } from "../plugin/index.ts";

/** The request of every method that lists what a spawn in a project can use. */
export const ProjectRequest = () =>
  z.object({ cwd: z.string(), env: z.record(z.string(), z.string()).optional() });

export interface ToolWire {
  name: string;
  description: string;
  /** The device's path. */
  path: string;
  plugin: string;
  layer: string;
  input: object;
  /** False for a schema beyond what can be read: its driver checks the input alone. */
  checked: boolean;
  annotations: ToolAnnotations;
  /** The agent asked about may use it; true where none was asked about. */
  allowed: boolean;
  /** When that agent's model is shown it; null for never, and where no agent was asked about. */
  shown: "start" | "later" | null;
}

/** A part of an agent's first request. */
export interface PromptPartWire {
  part: string;
  bytes: number;
  /** Estimated. */
  tokens: number;
}

export interface AgentWire extends RunLimits {
  name: string;
  description: string;
  source: string;
  skills: string[];
  deferred_skills: string[];
  allowed_tools: string[];
  checks: string[];
  /** What of its files has no effect, or is missing. */
  notices: string[];
}

export interface SkillWire {
  name: string;
  description: string;
  source: string;
  allowed_tools: string[] | null;
  /** An agent has written it, and the user has not trusted it: it is not loaded. */
  waits: boolean;
}

export interface ProviderWire {
  name: string;
  device: string;
  /** The model that a run gets; null if it must be named. */
  model: string | null;
  /** Other known models: of providers.yaml, and of a server on this machine. */
  models: string[];
  base_url: string | null;
  /** Where its key comes from ("OPENAI_API_KEY", "not needed"), never the key. */
  key: string | null;
  usable: boolean;
  /** Why it would be chosen, or why it can't be used. */
  because: string;
  /** The provider of a spawn without a flag. */
  chosen: boolean;
  /** The queue of each of its keys, if it was used recently. */
  queues?: QueueWire[];
  /** Only when probed. */
  probe?: { ok: boolean; ms: number; code?: Code; message: string };
}

export interface ModelWire {
  provider: string;
  model: string;
  /** Tokens of a request and its answer together; null: not known. */
  context_window: number | null;
  max_output: number | null;
  /** In USD per million tokens; null: not known. */
  price: ModelPrice | null;
  /** Where its name comes from: the service's own list, the table of known models, or providers.yaml. */
  from: "service" | "table" | "file";
  /** The provider's model if none is named. */
  is_default: boolean;
  /** The model of a spawn without a flag. */
  chosen: boolean;
}

/** What a model answered to one word. */
export interface TriedModelWire {
  model: string;
  text: string;
  /** Input and output together. */
  tokens: number;
  /** null: not known. */
  cost_usd: number | null;
  ms: number;
}

/** The state of one key of a provider; times in ms. */
export type QueueWire = Omit<GateStatus, "provider">;
