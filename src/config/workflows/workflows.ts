/** Finds the saved workflows: files of the project, which need trust, and of the user. */

import { basename, join } from "node:path";
import { SyscallError } from "../../plugin/errors.ts";
import { GRAPH_SCRIPT, graphOf } from "../../workflows/graph.ts";
import { descriptionOf, type WorkflowScript } from "../../workflows/script.ts";
import {
  type ConfigSources,
  inProject,
  type Problem,
  problemsOf,
  type Root,
  refuseEscape,
} from "../config-sources.ts";
import { digestText, entriesIn, readText } from "../files/file.ts";
import { suggestion } from "../files/suggestion.ts";
import { asksTrust } from "../trust/project-keys.ts";
import type { TrustRequest } from "../trust/trust.ts";

/** Of the project, the nearest first; the user has the same below the folder of the settings and in the home folder. */
const FOLDERS = [".rnix/workflows", ".claude/workflows"] as const;
const EXTENSION = ".js";

type Sources = Pick<ConfigSources, "project" | "configDir" | "home" | "trust">;

export interface SavedWorkflow {
  name: string;
  description: string;
  path: string;
  source: string;
  /** `unused`: a nearer one has its name. */
  state: "trusted" | "withheld" | "unused";
}

/** Every saved workflow, the nearest first. */
export function loadWorkflows(sources: Sources): { workflows: SavedWorkflow[]; problems: Problem[] } {
  const problems: Problem[] = [];
  const used = new Set<string>();
  const workflows = everyFile(sources, problems).map(({ path, source, waits }): SavedWorkflow => {
    const name = basename(path, EXTENSION);
    const state = waits ? "withheld" : used.has(name) ? "unused" : "trusted";
    if (!waits) used.add(name);
    return { name, description: descriptionOf(source), path, source, state };
  });
  return { workflows, problems };
}

/** The script of a request: as given, or the saved one of its name. */
export function scriptOf(
  { name, source, args, graph, shell }: Partial<WorkflowScript> & { name: string; graph?: unknown },
  sources: Sources,
): WorkflowScript {
  if (graph !== undefined) return { name, source: GRAPH_SCRIPT, args: graphOf(graph, name).nodes };
  return { ...(source === undefined ? findWorkflow(name, sources) : { name, source }), args, shell };
}

/** The workflow of this name. Fails with NOT_FOUND, or with PERMISSION while the only one waits for trust. */
export function findWorkflow(name: string, sources: Sources): WorkflowScript {
  const { workflows, problems } = loadWorkflows(sources);
  const named = workflows.filter((one) => one.name === name);
  const found = named.find(({ state }) => state === "trusted");
  if (found) return { name, source: found.source };
  const [withheld] = named;
  if (withheld) {
    throw new SyscallError(
      "PERMISSION",
      `The workflow ${name} in ${withheld.path} waits for trust: look at it, then rnix trust, or --trust for this run.`,
    );
  }
  const [problem] = problems;
  if (problem) throw new SyscallError("INVALID", problem.message);
  throw new SyscallError(
    "NOT_FOUND",
    `There is no workflow ${name}${suggestion(
      name,
      workflows.map((one) => one.name),
    )}. rnix workflow list prints them; a file is named with its path, such as ./${name}.js.`,
  );
}

/** What of the project's workflows needs trust. */
export function projectWorkflows({ project }: Pick<ConfigSources, "project">): TrustRequest[] {
  return inProject({ project }, ...FOLDERS)
    .flatMap(filesIn)
    .map((file) => {
      const [name, description] = [basename(file, EXTENSION), descriptionOf(readText(file) ?? "")];
      const what = `workflow ${name}: starts agents with the rights of its run${description && `; ${description}`}`;
      return { kind: "workflow", name, what, file, files: [{ path: file }] };
    });
}

function everyFile(
  sources: Sources,
  problems: Problem[],
): { path: string; source: string; waits: boolean }[] {
  const { project, configDir, home, trust } = sources;
  const roots: Root[] = [
    ...inProject(sources, ...FOLDERS),
    { dir: join(configDir, "workflows"), tier: "user" },
    { dir: join(home, ".claude/workflows"), tier: "user" },
  ];
  return roots.flatMap((root) => {
    try {
      return filesIn(root).flatMap((path) => {
        const isProjects = root.tier === "project";
        if (isProjects) refuseEscape(path, project);
        const source = readText(path);
        if (source === null) return [];
        // Over the text that was read: the file may have changed since.
        const digest = digestText(source).replace("sha256:", "");
        const asks = isProjects && asksTrust(".rnix/workflows/*.js", "content");
        return [{ path, source, waits: asks && !trust.allows({ files: [{ path, digest }] }) }];
      });
    } catch (error) {
      problems.push(...problemsOf(error, root.dir));
      return [];
    }
  });
}

function filesIn({ dir }: Root): string[] {
  return entriesIn(dir)
    .filter((entry) => entry.name.endsWith(EXTENSION) && !entry.isDirectory())
    .map(({ name }) => join(dir, name))
    .toSorted();
}
