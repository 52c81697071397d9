/** The tool Workflow, which runs a script that starts agents, in the background. */

import { SyscallError } from "../../plugin/index.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import type { ChildRequest } from "../types.ts";
import type { KernelTool } from "./tool-device.ts";

const DESCRIPTION = `Run a script that starts many agents, in the background; a message follows with its result. Give the name of a saved workflow, or a script such as
export const meta = {name: "review", description: "…"};
const notes = await pipeline(args, (file) => agent("Review " + file, {label: file}), (note) => agent("Refute: " + note));
return await agent("Sum up:\\n" + notes.filter(Boolean).join("\\n"));
It has agent(prompt, {agent, model, schema, check, label, …}), parallel(functions), pipeline(items, stages…), phase(name), log(text), args and budget; no files, network, clock or random numbers. All agents use your budget and rights.`;

/** The tool that starts a workflow. The workflow's end arrives as a signal. */
export function workflowTool(agents: () => ChildAgents): KernelTool {
  return {
    path: "/dev/kernel/workflow",
    tool: {
      name: "Workflow",
      description: DESCRIPTION,
      input: {
        type: "object",
        properties: {
          script: { type: "string", minLength: 1, description: "Instead of a name." },
          name: { type: "string", minLength: 1 },
          args: { description: "Any JSON value: the script has it as args." },
        },
        additionalProperties: false,
      },
      defer: true,
    },
    run: async ({ proc, input, signal }) => {
      const { unit } = await agents().start(proc, requestOf(input), signal);
      const { id } = unit;
      return `Started as unit ${id}. A message follows when it ends; DaemonOutput ${id} shows how far it is, DaemonStop ${id} ends it and its agents.`;
    },
  };
}

function requestOf({ script, name, args }: Record<string, unknown>): ChildRequest {
  const source = typeof script === "string" ? script : undefined;
  const saved = typeof name === "string" ? name : undefined;
  if (source === undefined && saved === undefined)
    throw new SyscallError("INVALID", "Workflow: expected a script, or the name of a saved workflow.");
  const called = saved ?? nameIn(source ?? "");
  return { intent: `workflow ${called}`, runs: { name: called, source, args } };
}

function nameIn(source: string): string {
  return /\bname\s*:\s*["'`]([\w .-]{1,80})["'`]/.exec(source.slice(0, 1000))?.[1] ?? "workflow";
}
