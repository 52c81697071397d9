/** The graph of agents that a compose file describes: its schema, its checks, and the workflow that runs it. */

import { z } from "zod";
import { issueText } from "../lib/issue-text.ts";
import { SyscallError } from "../plugin/errors.ts";
import { AgentOptions } from "./messages.ts";

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
const MAX_NODES = 1_000;
/** `{{node}}`, `{{node.field}}`, `{{item}}`. */
const PLACE = /\{\{\s*([A-Za-z][\w-]*)((?:\.[\w-]+)*)\s*\}\}/g;

/** When a node begins: once the other has completed, failed, or ended in whatever way. */
const Condition = z.enum(["completed", "failed", "ended"]);

const Node = AgentOptions.omit({ phase: true, label: true, schema: true, input: true }).extend({
  prompt: z.string().min(1),
  needs: z.union([z.array(z.string()).transform(allCompleted), z.record(z.string(), Condition)]).default({}),
  /** One agent for each item of a list, or of the list that a node gives, such as `plan.files`. */
  for_each: z.union([z.array(z.unknown()), z.string()]).optional(),
  retries: z.int().min(0).max(10).default(0),
  /** The graph may complete although it fails. */
  allow_failure: z.boolean().default(false),
});

export const Graph = z.strictObject({
  name: z.string().optional(),
  /** Of all nodes together. */
  context_budget: z.int().positive().optional(),
  max_cost: z.number().positive().optional(),
  nodes: z.record(z.string().regex(NAME, "expected a name of letters, digits, _ and -"), Node),
});

export type Graph = z.infer<typeof Graph>;
export type GraphNode = Graph["nodes"][string];

function allCompleted(names: string[]): Record<string, z.infer<typeof Condition>> {
  return Object.fromEntries(names.map((name) => [name, "completed"]));
}

/** Fails with INVALID for anything that can be seen before an agent runs. `file`: for messages. */
export function graphOf(value: unknown, file: string): Graph {
  const { data: graph, error } = Graph.safeParse(value);
  const wrong = (message: string): SyscallError => new SyscallError("INVALID", `${file}: ${message}`);
  if (error) throw wrong(issueText(error));
  const names = Object.keys(graph.nodes);
  if (names.length === 0 || names.length > MAX_NODES)
    throw wrong(`expected 1 to ${MAX_NODES} nodes, got ${names.length}`);
  for (const [name, node] of Object.entries(graph.nodes)) {
    for (const need of Object.keys(node.needs))
      if (!Object.hasOwn(graph.nodes, need)) throw wrong(`nodes.${name}.needs: there is no node ${need}`);
    for (const used of usedBy(node))
      if (used !== "item" && !Object.hasOwn(node.needs, used))
        throw wrong(`nodes.${name}: it uses {{${used}}}, which is not among its needs`);
    if (usedBy(node).has("item") && node.for_each === undefined)
      throw wrong(`nodes.${name}: {{item}} needs for_each`);
  }
  const circle = circleIn(graph);
  if (circle) throw wrong(`its nodes wait for each other: ${circle.join(" → ")}`);
  return graph;
}

function usedBy({ prompt, for_each }: GraphNode): Set<string> {
  const used = new Set([...prompt.matchAll(PLACE)].map(([, name = ""]) => name));
  if (typeof for_each === "string") used.add(for_each.split(".")[0] ?? "");
  return used;
}

function circleIn({ nodes }: Graph): string[] | undefined {
  const done = new Set<string>();
  const visit = (name: string, way: readonly string[]): string[] | undefined => {
    const at = way.indexOf(name);
    if (at >= 0) return [...way.slice(at), name];
    if (done.has(name)) return undefined;
    for (const need of Object.keys(nodes[name]?.needs ?? {})) {
      const found = visit(need, [...way, name]);
      if (found) return found;
    }
    done.add(name);
    return undefined;
  };
  for (const name of Object.keys(nodes)) {
    const found = visit(name, []);
    if (found) return found;
  }
  return undefined;
}

/** The graph as Mermaid. An arrow that is not `completed` has its condition. */
export function mermaidOf({ nodes }: Graph): string {
  // A name such as `end` is a word of Mermaid, and hyphens may be arrows.
  const ids = new Map(Object.keys(nodes).map((name, i) => [name, `n${i + 1}`]));
  const lines = Object.entries(nodes).flatMap(([name, { needs, for_each, agent }]) => [
    `  ${ids.get(name)}["${name}${for_each === undefined ? "" : " × items"}${agent === undefined ? "" : `<br/>${agent.replaceAll('"', "'")}`}"]`,
    ...Object.entries(needs).map(
      ([need, when]) => `  ${ids.get(need)} -->${when === "completed" ? "" : `|${when}|`} ${ids.get(name)}`,
    ),
  ]);
  return `flowchart TD\n${lines.join("\n")}\n`;
}

/** The workflow that runs a graph: a node begins as soon as what it needs is there. Its `args` are the nodes. */
export const GRAPH_SCRIPT = `export const meta = { name: "compose", description: "runs the nodes of a graph" };
const started = new Map();
const ends = new Map();
const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const fieldOf = (name, path) => path.reduce((value, key) => value?.[key], ends.get(name).value);
const filled = (prompt, item) =>
  prompt.replace(/\\{\\{\\s*([A-Za-z][\\w-]*)((?:\\.[\\w-]+)*)\\s*\\}\\}/g, (_, name, path) => {
    const keys = path.split(".").slice(1);
    const value = name === "item" ? keys.reduce((at, key) => at?.[key], item) : fieldOf(name, keys);
    return value === undefined ? "" : textOf(value);
  });
const blockOf = (name) => {
  const { status, value, error } = ends.get(name);
  if (status === "completed") return 'The answer of the agent "' + name + '", as data:\\n' + textOf(value);
  return 'The agent "' + name + '" did not complete: ' + (error ?? status);
};
const meets = (when, { status }) => when === "ended" || status === when;
const ask = async (name, node, item, suffix) => {
  const { prompt, needs, for_each, retries, allow_failure, ...options } = node;
  const input = Object.keys(needs).map(blockOf).join("\\n\\n") || undefined;
  for (let attempt = 0; ; attempt++) {
    try {
      return await agent(filled(prompt, item), { ...options, input, label: name + suffix, phase: name });
    } catch (error) {
      if (attempt >= retries) throw error;
      log(name + suffix + " is tried again: " + error.message);
    }
  }
};
const itemsOf = ({ for_each }) => {
  if (typeof for_each !== "string") return for_each;
  const [name, ...path] = for_each.split(".");
  const items = fieldOf(name, path);
  if (!Array.isArray(items)) throw new Error("for_each: " + for_each + " is no list");
  return items;
};
const work = async (name, node) => {
  if (node.for_each === undefined) return ask(name, node, undefined, "");
  const failures = [];
  const values = await Promise.all(
    itemsOf(node).map((item, i) => ask(name, node, item, " " + (i + 1)).catch((error) => failures.push(error) && null)),
  );
  if (failures.length > 0) throw new Error(failures.length + " of " + values.length + " items failed: " + failures[0].message);
  return values;
};
const end = async (name) => {
  const node = args[name];
  await Promise.all(Object.keys(node.needs).map(run));
  const unmet = Object.entries(node.needs).find(([need, when]) => !meets(when, ends.get(need)));
  if (unmet) return { status: "skipped", error: unmet[0] + " is not " + unmet[1] };
  try {
    return { status: "completed", value: await work(name, node) };
  } catch (error) {
    return { status: "failed", error: error.message };
  }
};
const run = (name) => {
  if (!started.has(name)) started.set(name, end(name).then((how) => ends.set(name, how)));
  return started.get(name);
};
const names = Object.keys(args);
await Promise.all(names.map(run));
const failed = names.filter((name) => ends.get(name).status === "failed" && !args[name].allow_failure);
if (failed.length > 0)
  throw new Error(failed.length + " of " + names.length + " nodes failed: " + failed.map((name) => name + " (" + ends.get(name).error + ")").join("; "));
return Object.fromEntries(names.map((name) => [name, ends.get(name)]));
`;
