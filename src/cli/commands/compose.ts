/** `rnix compose`: runs a graph of agents that a YAML file describes. */

import { basename } from "node:path";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/errors.ts";
import type { Graph } from "../../workflows/graph.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { textOf } from "../files/paths.ts";
import { text } from "../flags.ts";
import type { Io } from "../io.ts";
import kill from "./kill.ts";
import workflow, { runWorkflow, WORKFLOW_FLAGS } from "./workflow.ts";

const FILE = text("the graph, in YAML", "FILE", { short: "f", file: "read" });

const up = defineCommand({
  about: "Run the agents of a graph, each as soon as what it needs is there",
  args: [],
  flags: { file: FILE, ...WORKFLOW_FLAGS },
  examples: { "rnix compose up -f review.yaml": "checks the whole graph, then runs it" },
  notes: [
    "Exit codes: 0 when every node completed or may fail (allow_failure), 1 when one failed, also if another node handled that.",
    "Limits of the graph come from its file; flags come first.",
  ],
  async run(io, flags) {
    return runWorkflow(io, flags, async () => {
      const { name, graph } = await graphIn(io, flags.file);
      const { context_budget, max_cost } = graph;
      return {
        workflow: { name, graph },
        intent: `compose ${name}: ${Object.keys(graph.nodes).length} nodes`,
        limits: { context_budget, max_cost },
      };
    });
  },
});

const graph = defineCommand({
  about: "Print the graph as Mermaid; starts nothing",
  flags: { file: FILE },
  examples: { "rnix compose graph -f review.yaml": "for a README, or an editor that draws it" },
  async run(io, flags) {
    const { mermaidOf } = await import("../../workflows/graph.ts");
    io.stdout.write(mermaidOf((await graphIn(io, flags.file)).graph));
    return EXIT.ok;
  },
});

const { show, resume } = workflow.subcommands ?? {};
if (show === undefined || resume === undefined) throw new TypeError("rnix workflow has no show and resume");

export default defineCommand({
  about: "Run a graph of agents: start, end, show or resume it, or draw it",
  examples: {
    "rnix compose up -f review.yaml": "runs it",
    "rnix compose status 01975a2e": "its nodes and how each ended",
    "rnix compose resume 01975a2e": "after a kill, or to ask failed nodes again",
  },
  subcommands: {
    up,
    graph,
    status: {
      ...show,
      about: "Show the nodes of a graph, how each ended, and what they used",
      examples: { "rnix compose status 01975a2e": "live or ended" },
    },
    resume: {
      ...resume,
      about: "Resume a graph: finished nodes keep their answers, failed ones are asked again",
      examples: { "rnix compose resume 01975a2e": "the same as rnix resume" },
    },
    down: {
      ...kill,
      about: "End a graph with all of its agents",
      examples: { "rnix compose down 312": "the same as rnix kill" },
    },
  },
});

async function graphIn(io: Io, file: string | undefined): Promise<{ name: string; graph: Graph }> {
  if (file === undefined) throw usageError("-f FILE is missing: the YAML file of the graph");
  const source = await textOf(io, "--file", file);
  const [{ parseDocument }, { graphOf }] = await Promise.all([
    import("yaml"),
    import("../../workflows/graph.ts"),
  ]);
  const document = parseDocument(source);
  const [error] = document.errors;
  if (error) throw new SyscallError("INVALID", `${file}: ${error.message}`);
  let content: unknown;
  try {
    content = document.toJS();
  } catch (cause) {
    // Aliases that would grow without bound are refused.
    throw new SyscallError("INVALID", `${file}: ${messageOf(cause)}`, { cause });
  }
  const graph = graphOf(content, file);
  return { name: graph.name ?? basename(file).replace(/\.ya?ml$/, ""), graph };
}
