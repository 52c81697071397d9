/** An agent that has a name and all rights only. */

import type { AgentInfo } from "../types.ts";

/** An agent with a name, all rights and nothing else: for runs without an agent, and for processes of other kinds. */
export function bareAgent(name: string): AgentInfo {
  return {
    name,
    description: "",
    instructions: "",
    skills: [],
    deferredSkills: [],
    allowedTools: ["*"],
    checks: [],
    source: "kernel",
  };
}
