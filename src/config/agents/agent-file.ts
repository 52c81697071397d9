/** The schema of agent.yaml. */

import { basename } from "node:path";
import { z } from "zod";
import { namesWith } from "../../options/option-list.ts";
import { EFFORTS } from "../../plugin/index.ts";
import {
  checkList,
  choice,
  expecting,
  modelNames,
  optionKeys,
  strict,
  text,
  texts,
} from "../files/values.ts";
import { parseStockYaml } from "../files/yaml.ts";

export const AGENT_FILE = "agent.yaml";

/** Keys of the format that this version does not support. */
const LATER = ["supervise"];

/** In `deferred_skills`: every skill. In `mcp`: every trusted server. */
export const EVERY = "*";

export const AgentFile = z.lazy(() =>
  strict(
    {
      name: text("the agent's name"),
      description: text("a text that says what the agent is for"),
      models: strict({
        provider: text("a provider's name").optional(),
        preferred: text("a model's name").optional(),
        fallback: modelNames().optional(),
        effort: choice(EFFORTS).optional(),
      }).optional(),
      skills: texts("a list of skill names").optional(),
      deferred_skills: everyOr(texts('a list of skill names, or "*" for all')).optional(),
      allowed_tools: z
        .union(
          [z.literal("*").transform(() => ["*"]), texts()],
          expecting('a list of tool names and patterns, or "*" for all'),
        )
        .optional(),
      ask: texts("a list of tool names and patterns").optional(),
      mcp: everyOr(servers()).optional(),
      ...optionKeys(namesWith({ agent: true })),
      checks: checkList().optional(),
    },
    LATER,
  ),
);

/** `"*"` is the same as `["*"]`. */
function everyOr<List extends z.ZodType>(list: List) {
  return z.preprocess((input) => (input === EVERY ? [EVERY] : input), list);
}

function servers() {
  const server = strict({ name: text("a server's name"), required: z.boolean().optional() });
  return z.array(
    z.union([text(), server], expecting("a server's name, or {name, required}")),
    expecting('a list of MCP servers, or "*" for all'),
  );
}

/** The content of an agent.yaml. */
export type AgentFront = z.infer<typeof AgentFile>;

/** Reads and checks a stock agent.yaml, for the build; undefined for the agent's other files. */
export function stockAgentFront({ path, text }: { path: string; text: string }): AgentFront | undefined {
  return basename(path) === AGENT_FILE ? parseStockYaml(AgentFile, text, stockLabel(path)).value : undefined;
}

/** The path of a stock agent's file in messages. */
export function stockLabel(path: string): string {
  return `embedded/agents/${path}`;
}
