/** The commands of a conversation, such as /model. */

import { realpathSync } from "node:fs";
import { splitToolRules } from "../../lib/tool-rules.ts";
import type { SyscallError } from "../../plugin/index.ts";
import { usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import { project } from "../io.ts";
import { patchText, problemsText, refusedText, statText, undoText } from "../output/changes.ts";
import { formatCost, formatCount, plural } from "../output/format.ts";
import { changedFiles } from "../processes/target.ts";
import type { CompletableCommand } from "../terminal/completion.ts";
import type { ChatActions } from "./actions.ts";
import { begin, fork, name, resume, resumeValues } from "./conversation-commands.ts";
import { agent, agentValues, effort, effortValues, model, modelValues } from "./model-commands.ts";
import { ask, modeValues } from "./modes.ts";
import { YES_NO } from "./picker.ts";
import { wordsOf } from "./prompt-commands.ts";
import { copy, exportTo } from "./share-commands.ts";
import { units } from "./unit-commands.ts";

export interface ChatCommand extends CompletableCommand {
  run(chat: ChatActions, args: string): Promise<void>;
}

export function chatCommands(chat: ChatActions): ChatCommand[] {
  return COMMANDS.map(({ values, ...command }) => ({
    ...command,
    ...(values && { values: () => values(chat) }),
  }));
}

interface Command extends Omit<ChatCommand, "values"> {
  values?(chat: ChatActions): Promise<{ value: string; about: string }[]>;
}

const COMMANDS: readonly Command[] = [
  { name: "model", about: "choose the model: MODEL or PROVIDER/MODEL", values: modelValues, run: model },
  { name: "effort", about: "how much the model thinks before it answers", values: effortValues, run: effort },
  { name: "agent", about: "choose the agent of a new conversation", values: agentValues, run: agent },
  { name: "tools", about: "what the agent may use", run: tools },
  { name: "ask", about: "what needs your yes: plan, outside, edits, off", values: modeValues, run: ask },
  {
    name: "allow",
    about: "allow tools without a question, such as Bash(git *)",
    hint: "<rules>",
    run: (c, rules) => rights(c, "allow", rules),
  },
  { name: "deny", about: "refuse tools", hint: "<rules>", run: (c, rules) => rights(c, "deny", rules) },
  { name: "add", about: "let the agent use a folder outside the project", hint: "<folder>", run: add },
  { name: "compact", about: "shorten the conversation that the model gets", run: compact },
  { name: "diff", about: "what the conversation changed in files", run: diff },
  { name: "undo", about: "take its changes of files back; asks first", run: undo },
  { name: "units", about: "what runs in the background; ctrl-t", run: units },
  { name: "cost", about: "tokens and money so far", run: cost },
  { name: "btw", about: "ask something aside, while the agent works", hint: "<question>", run: btw },
  { name: "name", about: "name the conversation, for /resume", hint: "<name>", run: name },
  { name: "copy", about: "copy the last answer to the clipboard", run: copy },
  { name: "export", about: "write it to a file: Markdown, or HTML by .html", hint: "[file]", run: exportTo },
  { name: "fork", about: "continue in a copy; the original stays as it is", run: fork },
  { name: "resume", about: "continue another conversation", values: resumeValues, run: resume },
  { name: "new", about: "begin a new conversation", run: begin },
  { name: "quit", about: "leave; the conversation can be resumed", run: async (chat) => chat.leave() },
  { name: "help", about: "commands and keys", run: help },
];

async function tools(chat: ChatActions): Promise<void> {
  if (chat.uuid === null) {
    const { tools } = await chat.link.request("list_tools", {
      ...project(chat.io),
      agent: chat.options.agent,
    });
    const allowed = tools.flatMap(({ name, allowed }) => (allowed ? [name] : []));
    chat.print(`tools of ${chat.options.agent ?? "default"}: ${allowed.join(", ")}`);
    return;
  }
  const { allowed_tools, permissions } = await chat.link.request("show", { uuid: chat.uuid });
  const { deny, ask = [], always = [] } = permissions;
  const lines = [
    `tools: ${allowed_tools.join(", ") || "none"}`,
    ...(deny.length === 0 ? [] : [`denied: ${deny.join(", ")}`]),
    ...(ask.length === 0 ? [] : [`asked for: ${ask.join(", ")}`]),
    ...(always.length === 0 ? [] : [`allowed by you: ${always.join(", ")}`]),
  ];
  chat.print(lines.join("\n"));
}

/** What /allow names needs no question either; /deny wins over both. */
async function rights(chat: ChatActions, method: "allow" | "deny", args: string): Promise<void> {
  // No shell has taken the quotes away with which a rule is written elsewhere.
  const rules = splitToolRules(args.replace(/^(["'])(.*)\1$/s, "$2")).filter((rule) => rule !== "");
  if (rules.length === 0) throw usageError(`/${method} needs a rule, such as Read or Bash(git *)`);
  await requireTools(chat, rules);
  const unasked = method === "allow";
  const still = unasked ? await stillAsked(rules) : "";
  const plan =
    unasked && chat.mode === "plan" ? "\nthe mode plan still refuses what changes something: /ask" : "";
  if (chat.uuid === null) {
    const field = unasked ? "unasked" : "deny";
    chat.options[field] = [...(chat.options[field] ?? []), ...rules];
    const what = unasked ? "allowed without a question" : "denied";
    chat.print(`${what} in the new conversation: ${chat.options[field].join(", ")}${still}${plan}`);
    return;
  }
  if (!chat.isLive) throw needsLive("its rights can be changed");
  const { allowed_tools, denied_tools } = await chat.link.request(method, {
    uuid: chat.uuid,
    tools: rules,
    ...(unasked && { unasked }),
  });
  const free = unasked ? `\nwithout a question: ${rules.join(", ")}` : "";
  const denied = denied_tools.length > 0 ? `\ndenied: ${denied_tools.join(", ")}` : "";
  chat.print(`the agent may use: ${allowed_tools.join(", ") || "nothing"}${free}${still}${denied}${plan}`);
}

/** The folder counts for the run and its children; before the first message, for the run that it begins. */
async function add(chat: ChatActions, folder: string): Promise<void> {
  if (folder === "") throw usageError("/add needs a folder, such as ../site");
  const path = folder.replace(/^~(?=\/|$)/, chat.io.env.HOME ?? "~");
  const dir = absoluteFolder(chat.io, "/add", path);
  if (chat.uuid === null) chat.options.add = [...new Set([...(chat.options.add ?? []), dir])];
  else if (chat.isLive) await chat.link.request("allow", { uuid: chat.uuid, tools: [], folders: [dir] });
  else throw needsLive("a folder can be added");
  chat.print(`the agent may use ${dir}`);
}

/** A rule that is wrong would be refused with each message. Tools of MCP servers are known only later. */
async function requireTools(chat: ChatActions, texts: readonly string[]): Promise<void> {
  const { parseRule } = await import("../../kernel/permission/rule.ts");
  const rules = texts.map(parseRule);
  const { tools } = await chat.link.request("list_tools", project(chat.io));
  const wrong = rules.find(
    (rule) =>
      (rule.kind === "pattern" || (rule.kind === "tool" && !rule.glob)) &&
      !rule.name.startsWith("mcp__") &&
      !tools.some(({ name }) => name === rule.name),
  );
  if (wrong !== undefined)
    throw usageError(`there is no tool ${JSON.stringify(wrong.text)}: /tools lists them`);
}

/** Which of these rules answer no question about commands that run what their arguments say; "" for none. */
async function stillAsked(texts: readonly string[]): Promise<string> {
  const { runsArguments } = await import("../../kernel/permission/command-kinds.ts");
  const rules = texts.filter((text) => runsArguments(/^[^(]*\((.*)\)$/s.exec(text)?.[1] ?? ""));
  if (rules.length === 0) return "";
  return `\nstill asked, where the arguments may run a program: ${rules.join(", ")}`;
}

async function compact(chat: ChatActions): Promise<void> {
  if (chat.uuid === null || !chat.isLive) throw needsLive("it can be compacted");
  const { pre_tokens, post_tokens, summarised_by } = await chat.link.request(
    "compact",
    { uuid: chat.uuid },
    { timeoutMs: null },
  );
  const by = { model: ", summarised by its model", digest: ", summarised without its model" };
  chat.print(
    post_tokens >= pre_tokens
      ? `about ${formatCount(pre_tokens)} tokens; compaction can't make it smaller`
      : `about ${formatCount(pre_tokens)} tokens before, ${formatCount(post_tokens)} after${summarised_by === null ? "" : by[summarised_by]}`,
  );
}

async function cost(chat: ChatActions): Promise<void> {
  if (chat.uuid === null) return chat.print("nothing was used yet");
  const info = await chat.link.request("show", { uuid: chat.uuid });
  const { usage, tokens_used, cost_usd, steps, children, context_budget, max_cost } = info;
  const own = `${formatCount(usage.input_tokens)} in (${formatCount(usage.cached_tokens)} cached), ${formatCount(usage.output_tokens)} out`;
  const limits = [
    ...(context_budget === null ? [] : [`budget ${formatCount(context_budget)} tokens`]),
    ...(max_cost === null ? [] : [`at most ${formatCost(max_cost)}`]),
  ];
  chat.print(
    [
      `${cost_usd === null ? "" : `${formatCost(cost_usd)}, `}${formatCount(tokens_used)} tokens in ${plural(steps, "step")}: ${own}`,
      ...(children.length === 0 ? [] : [`with ${plural(children.length, "sub-agent")}`]),
      ...(limits.length === 0 ? [] : [limits.join(", ")]),
      ...(cost_usd === null ? ["the price of the model is not known: rnix models"] : []),
    ].join("\n"),
  );
}

async function btw(chat: ChatActions, question: string): Promise<void> {
  if (question === "") throw usageError("/btw needs a question");
  chat.aside(question);
}

async function help(chat: ChatActions): Promise<void> {
  const { commands } = chat;
  const widths = commands.map(({ name, hint = "" }) => name.length + hint.length + 1);
  const width = Math.min(MAX_NAME_WIDTH, Math.max(...widths));
  const row = (shown: string, about: string): string => `  ${shown.padEnd(width + 3)}${about}`;
  const rows = commands.map(({ name, hint = "", about }) => row(`/${name} ${hint}`.trimEnd(), about));
  chat.print(["commands", ...rows, "", "keys", ...KEYS.map(([key, about]) => row(key, about))].join("\n"));
}

/** Columns of the names of commands; a longer one moves its text to the right. */
const MAX_NAME_WIDTH = 24;

const KEYS: readonly [string, string][] = [
  ["enter", "send; while the agent works: for its next step"],
  ["alt-enter", "a new line; while the agent works: send after its answer"],
  ["shift-enter, \\", "a new line"],
  ["!command", "run it in your shell; your next message has its output"],
  ["!!command", "the same, kept from the model"],
  ["esc", "stop the agent or a command; what waits returns to the line"],
  ["ctrl-s", "send waiting messages now, interrupting"],
  ["up, alt-up", "edit waiting messages; past messages"],
  ["ctrl-r", "search past messages"],
  ["ctrl-g", "write in $EDITOR"],
  ["ctrl-v", "attach the picture of the clipboard"],
  ["shift-tab", "the next mode: plan, outside, edits, off"],
  ["ctrl-b", "move the agent's running command to the background"],
  ["ctrl-t", "the background units: their output, or stop one"],
  ["ctrl-o", "results in full or in short"],
  ["ctrl-c", "suspend the agent, then kill it; clear the line; leave"],
  ["ctrl-d", "leave; a working agent continues"],
];

function needsLive(what: string): SyscallError {
  return usageError(`${what} while the conversation is live: send a message first`);
}

/** A longer patch is shown as a list of files. */
const PATCH_LINES = 120;
const DIFF_MS = 60_000;
const UNDO_MS = 10 * 60_000;

async function diff(chat: ChatActions, args: string): Promise<void> {
  const { uuid, files } = asked(chat, args);
  const found = await chat.link.request("diff", { uuid, files, patch: true }, { timeoutMs: DIFF_MS });
  const isShort = found.patch !== null && found.patch.split("\n").length <= PATCH_LINES;
  const text =
    isShort && found.patch !== null
      ? patchText(found.patch, chat.look)
      : `${statText(found, chat.io.stdout, chat.look)}\nrnix diff ${uuid} prints the patch`;
  const notes = problemsText(found).split("\n").slice(0, -1);
  const isUnchanged = found.files.length === 0;
  chat.printLines([
    ...notes,
    ...(isUnchanged ? ["The conversation has changed no files."] : text.split("\n")),
  ]);
}

/** Says what would be taken back, and asks first. */
async function undo(chat: ChatActions, args: string): Promise<void> {
  const request = asked(chat, args);
  const planned = await chat.link.request("undo", { ...request, dry_run: true }, { timeoutMs: UNDO_MS });
  const undone = planned.files.filter(({ done }) => done !== "unchanged" && done !== "refused");
  const notes = [...planned.notes, ...planned.warnings].map((text) => `note: ${text}`);
  chat.printLines([
    ...notes,
    ...undoText(planned, chat.look).split("\n"),
    ...refusedText(planned, realpathSync(chat.io.cwd), chat.look).split("\n"),
  ]);
  if (undone.length === 0) return;
  const isAgreed = await chat.pick(`Take back the changes in ${plural(undone.length, "file")}?`, YES_NO);
  if (isAgreed !== true) return;
  const report = await chat.link.request("undo", request, { timeoutMs: UNDO_MS });
  chat.printLines([
    ...undoText(report, chat.look).split("\n"),
    `rnix undo ${request.uuid} --redo makes them again`,
  ]);
}

function asked(chat: ChatActions, args: string): { uuid: string; files: string[] | undefined } {
  if (chat.uuid === null) throw usageError("nothing was changed yet: there is no conversation");
  return { uuid: chat.uuid, files: changedFiles(chat.io, wordsOf(args)) };
}
