/** The method test_mcp: starts an MCP server as a run would, lists what it has, and ends it. */

import { z } from "zod";
import { MCP } from "../../config/mcp/mcp.ts";
import { mountPath } from "../../kernel/mount/mount-tables.ts";
import { expected } from "../../lib/error-detail.ts";
import type { SyscallError } from "../../plugin/index.ts";
import type { McpTestWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";
import { requireUser } from "./shared/refuse-inside.ts";

/** What the plugin answers at this path below the mount. */
const SUMMARY = "/summary";
const Item = z.object({ name: z.string(), description: z.string() });
const Summary = z.object({
  start_ms: z.number(),
  tools: z.array(Item),
  resources: z.array(Item),
  prompts: z.array(Item),
});

/** A server that is unknown, malformed or not trusted throws; one that fails is an answer. */
export const testMcp = method({
  payload: () => ProjectRequest().extend({ name: z.string().min(1), trust: z.boolean().optional() }),
  watchesClient: true,
  async handle({ name, ...place }, { kernel, planCall }, caller): Promise<McpTestWire> {
    requireUser(caller, "test an MCP server");
    const { opts } = await planCall({ ...place, server: name });
    const failed = ({ message, code }: SyscallError): McpTestWire => ({ error: message, error_code: code });
    const path = `${mountPath({ type: MCP, name }, 0)}${SUMMARY}`;
    try {
      const { result, error } = await kernel.calls.call({ path }, opts, caller.gone);
      if (error) return failed(error);
      return Summary.parse(JSON.parse(String(result)));
    } catch (thrown) {
      return failed(expected(thrown));
    }
  },
});
