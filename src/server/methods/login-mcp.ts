/** The method login_mcp: one half of a login at an MCP server, or the end of one. */

import { z } from "zod";
import { MCP } from "../../config/mcp/mcp.ts";
import { mountPath } from "../../kernel/mount/mount-tables.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { McpLoginWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";
import { requireUser } from "./shared/refuse-inside.ts";

/** What the plugin is asked: it explains what is wrong with it. */
const Request = z.record(z.string(), z.union([z.string(), z.boolean()]));

/** The plugin is mounted for the login alone: it opens no connection, and keeps the tokens in the user's folder. */
export const loginMcp = method({
  payload: () => ProjectRequest().extend({ name: z.string().min(1), request: Request }),
  watchesClient: true,
  async handle({ name, request, ...place }, { kernel, planCall }, caller): Promise<McpLoginWire> {
    requireUser(caller, "log in at an MCP server");
    const { opts } = await planCall({ ...place, server: name });
    const mounts = opts.mounts?.map((mount) => ({ ...mount, config: { ...mount.config, login: true } }));
    if (!mounts?.every(({ config }) => "url" in config)) {
      opts.devices.release();
      throw new SyscallError("INVALID", `The MCP server ${name} is at no address, so it has no login.`);
    }
    const path = `${mountPath({ type: MCP, name }, 0)}/login`;
    const call = { path, input: JSON.stringify(request) };
    const { result, error } = await kernel.calls.call(call, { ...opts, mounts }, caller.gone);
    if (error) throw error;
    return { answer: String(result) };
  },
});
