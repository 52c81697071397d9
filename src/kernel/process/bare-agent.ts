import type { AgentInfo } from "../types.ts";

/** An agent that is nothing but a name, with every right there is: of a run that names none, of what is no agent. */
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
