/** `rnix workflow`: runs, lists, shows and resumes workflows. */

import { basename } from "node:path";
import { objectOf } from "../../options/option-list.ts";
import type { ListedProc, Receipt } from "../../protocol/methods.ts";
import type { SessionState } from "../../shell/shell.ts";
import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { absoluteFolder, textOf } from "../files/paths.ts";
import { type FlagValues, json, text } from "../flags.ts";
import { environment, type Io, type Wire, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { doingText } from "../output/doing.ts";
import { formatCost, formatCount, formatElapsed, oneLine, plural } from "../output/format.ts";
import { print } from "../output/print.ts";
import type { RunOutput } from "../output/run-output.ts";
import type { Style } from "../output/style.ts";
import { target } from "../processes/target.ts";
import {
  FOLLOW_FLAGS,
  type Given,
  printNotices,
  printRefused,
  requireDaemon,
  resumeFlags,
  runAgent,
} from "../run/run.ts";
import type { FromStdin } from "../run/stdin.ts";
import { optionFields, SPAWN_FLAGS } from "../run-flags.ts";
import resumeRun from "./resume.ts";

/** What a workflow has no model for, and its agents may have by the script. */
const OF_AGENTS = [
  "check",
  "check-attempts",
  "output-schema",
  "system-prompt",
  "add",
  "skill",
  "on-units",
] as const;

export const WORKFLOW_FLAGS = {
  ...objectOf<Omit<typeof SPAWN_FLAGS, (typeof OF_AGENTS)[number]>>(
    Object.entries(SPAWN_FLAGS).filter(([name]) => !OF_AGENTS.some((one) => one === name)),
  ),
  ...FOLLOW_FLAGS,
};

interface ShellOf {
  args: string[];
  session?: SessionState | null;
  /** The run continues in the daemon. */
  detach?: boolean;
  stdin(io: Io): Promise<FromStdin>;
  view(io: Io): RunOutput;
  ended?(receipt: Receipt): Promise<void>;
}

interface Wanted {
  workflow: { name: string; source?: string; args?: unknown; graph?: unknown; shell?: true };
  intent: string;
  /** Flags come first. */
  limits?: { context_budget?: number; max_cost?: number };
  /** It is a script of the agent shell: its arguments, what gives its stdin, and what shows it. */
  shell?: ShellOf;
}

/** Spawns a workflow and follows it to its end. */
export async function runWorkflow(
  io: Io,
  flags: FlagValues<typeof WORKFLOW_FLAGS>,
  wanted: () => Promise<Wanted>,
): Promise<number> {
  const form = { output: flags.output ?? "text", quiet: flags.quiet };
  const run = await printNotices(io, form, async () => {
    requireDaemon(flags);
    const { limits, shell, ...asked } = await wanted();
    const detach = shell?.detach ?? flags.detach;
    const request = {
      ...limits,
      ...(await optionFields(io, "spawn", flags)),
      ...asked,
      cwd: absoluteFolder(io, "--cwd", flags.cwd ?? "."),
      detach: detach || undefined,
    };
    return {
      open: (wire: Wire, { input, ...given }: Given) => {
        const { args, session } = shell ?? {};
        const workflow = args ? { ...asked.workflow, args: { args, session, stdin: input } } : asked.workflow;
        const env_given = Object.keys(flags.env.set);
        return wire.open("spawn", { ...request, workflow, ...given, env_given });
      },
      input: shell?.stdin,
      view: shell?.view,
      ended: shell?.ended,
      env: flags.env.set,
      detach,
      unattended: flags["no-input"] || detach,
      inside: flags["no-daemon"],
      resumeFlags: resumeFlags({ ...flags, record: undefined }),
      hasEndOnly: true,
    };
  });
  const { code } = await runAgent(io, { ...run, ...form });
  return code;
}

const run = defineCommand({
  about: "Run a workflow: a script that starts agents",
  args: [
    { name: "NAME|FILE", about: "a saved workflow, or the file of one, such as ./review.js", file: true },
  ],
  flags: { args: text("a JSON value that the script has as `args`", "JSON"), ...WORKFLOW_FLAGS },
  examples: {
    'rnix workflow run review --args \'{"base": "main"}\'': "a saved workflow of the project",
    "rnix workflow run ./audit.js --max-cost 2 --detach": "one budget over all of its agents",
  },
  notes: [
    "After a kill -9, a stop or Ctrl-C, rnix workflow resume runs no agent twice: each finished one is found again by its prompt and options.",
  ],
  files: (_io, [name = ""]) => (isFile(name) ? { read: [name] } : {}),
  refused: printRefused,
  run: (io, flags, [name = ""]) =>
    runWorkflow(io, flags, async () => {
      const workflow = {
        name: isFile(name) ? basename(name) : name,
        source: isFile(name) ? await textOf(io, "FILE", name) : undefined,
        args: argsOf(flags.args),
      };
      const given = flags.args === undefined ? "" : ` ${flags.args}`;
      return { workflow, intent: `workflow ${workflow.name}${given}`.slice(0, 500) };
    }),
});

const list = defineCommand({
  about: "List the saved workflows of this project and yours",
  lists: true,
  flags: { json },
  examples: { "rnix workflow list": "their files, and which of them wait for rnix trust" },
  notes: [
    "They are files in .rnix/workflows and .claude/workflows of the project, in workflows beside your settings, and in ~/.claude/workflows.",
    "STATE is trusted, withheld (until rnix trust) or unused (a nearer file has its name).",
  ],
  async run(io, flags) {
    const { savedWorkflows } = await import("../../server/offline-commands.ts");
    const { workflows, problems } = await savedWorkflows({ cwd: io.cwd, env: environment(io) });
    return printCatalog(
      io,
      workflows.map(({ source: _source, ...one }) => one),
      [
        { title: "WORKFLOW", value: ({ name }) => name },
        { title: "STATE", value: ({ state }) => state },
        { title: "DESCRIPTION", value: ({ description }) => description, flexible: true },
        { title: "FILE", value: ({ path }) => path, flexible: true },
      ],
      { ...flags, diagnostics: problems, empty: "no workflow is saved: see docs/workflows.md" },
    );
  },
});

const RUN = { name: "ID", about: "PID or UUID of its run, or the beginning of the UUID" } as const;

const show = defineCommand({
  about: "Show a workflow's run: its agents by phase, how each ended, and what it used",
  args: [RUN],
  flags: { json },
  examples: { "rnix workflow show 01975a2e": "live or ended" },
  run: (io, flags, [id = ""]) =>
    withWire(io, async (wire) => {
      const answer = await wire.request("show_workflow", target(io, id));
      return print(io, flags, answer, (style) => workflowText(answer, style, Date.now()));
    }),
});

/** Under its own name: who resumes a workflow looks for it here. */
const resume = {
  ...resumeRun,
  about: "Resume a workflow: what has ended is found again, and an agent that failed is asked again",
  examples: { "rnix workflow resume 01975a2e": "the same as rnix resume" },
} as const;

export default defineCommand({
  about: "Run scripts that start agents, and list, show or resume them",
  examples: {
    "rnix workflow run review": "runs a saved workflow",
    "rnix workflow list": "the saved ones",
    "rnix workflow show 01975a2e": "its agents by phase",
  },
  subcommands: { run, list, show, resume },
});

function isFile(name: string): boolean {
  return name.includes("/") || name.endsWith(".js");
}

function argsOf(given: string | undefined): unknown {
  if (given === undefined) return undefined;
  try {
    return JSON.parse(given);
  } catch {
    throw usageError(`--args: expected a JSON value, got ${given.slice(0, 80)}`);
  }
}

const TITLE = 40;

function workflowText(
  { run, agents }: { run: ListedProc; agents: readonly ListedProc[] },
  style: Style,
  now: number,
): string {
  const ended = agents.filter(({ ended_at_ms, status }) => ended_at_ms !== null && status !== "suspended");
  const failed = ended.filter(({ exit_code }) => exit_code !== 0);
  const counts = `${ended.length} of ${plural(agents.length, "agent")} ended${failed.length > 0 ? `, ${failed.length} failed` : ""}`;
  const used = `${formatCount(run.tokens_used)} tokens, ${formatCost(run.cost_usd)}, ${formatElapsed(run.elapsed_ms)}`;
  const lines = [
    `${style.bold(run.workflow?.name ?? run.agent)}  ${run.uuid}  ${stateOf(run)}`,
    `${counts}; ${used}`,
    ...(run.error ? [style.red(oneLine(run.error.message, 400))] : []),
  ];
  for (const [phase, of] of Map.groupBy(agents, ({ workflow }) => workflow?.phase ?? "")) {
    lines.push("", style.bold(phase === "" ? "agents" : phase));
    for (const agent of of) lines.push(`  ${lineOf(agent, style, now)}`);
  }
  return `${lines.join("\n")}\n`;
}

function lineOf(info: ListedProc, style: Style, now: number): string {
  const { workflow, intent, steps, tokens_used, elapsed_ms, exit_code, ended_at_ms, uuid, doing } = info;
  const title = oneLine(workflow?.label ?? intent, TITLE);
  const mark = ended_at_ms === null ? "…" : exit_code === 0 ? style.green("✓") : style.red("✗");
  const now_ = ended_at_ms === null && doing ? `  ${doingText(doing, now, style)}` : "";
  const use = `${plural(steps, "step")}, ${formatCount(tokens_used)} tokens, ${formatElapsed(elapsed_ms)}`;
  return `${mark} ${title}  ${style.dim(`${uuid.slice(0, 18)} ${stateOf(info)}, ${use}`)}${now_}`;
}

function stateOf({ status, exit_reason, exit_code }: ListedProc): string {
  return exit_code === null ? status : (exit_reason ?? status);
}
