import type { Answers } from "./protocol.ts";

/** Which project is asked about: a command's folder and environment. */
export interface Place {
  /** Absolute. */
  cwd: string;
  env?: Record<string, string>;
}

/** What there is for a run in a project: read anew for every question, so that an edit counts at once. */
export interface Catalog {
  /** The project's folder, as processes carry it. */
  projectDir(cwd: string): string;
  plugins(place: Place): Promise<Answers["list_plugins"]>;
  /** With what the agent may use marked, where one is named. */
  tools(place: Place, agent?: string): Promise<Answers["list_tools"]>;
  agents(place: Place): Promise<Answers["list_agents"]>;
  skills(place: Place): Promise<Answers["list_skills"]>;
  /** `probe`: asks each of them whether it answers. */
  providers(place: Place, probe: boolean): Promise<Answers["list_providers"]>;
}
