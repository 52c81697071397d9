/** The commands of a conversation, such as /model. */

import type { ProcInfo } from "../../kernel/types.ts";
import { splitToolRules } from "../../lib/tool-rules.ts";
import { SyscallError } from "../../plugin/index.ts";
import { project } from "../io.ts";
import { formatCost, formatCount, formatElapsed, oneLine, plural } from "../output/format.ts";
import { target } from "../target.ts";
import type { CompletableCommand } from "../terminal/completion.ts";
import type { ChatActions, PastRun } from "./actions.ts";
import { diff, undo } from "./changes.ts";

export interface ChatCommand extends CompletableCommand {
  run(chat: ChatActions, args: string): Promise<void>;
}

/** Conversations offered by /resume. */
const MAX_RESUMABLE = 200;
const INTENT_WIDTH = 200;

export function chatCommands(chat: ChatActions): ChatCommand[] {
  return [
    {
      name: "model",
      about: "choose the model: MODEL or PROVIDER/MODEL",
      values: () => modelValues(chat),
      run: model,
    },
    {
      name: "agent",
      about: "choose the agent of a new conversation",
      values: () => agentValues(chat),
      run: agent,
    },
    { name: "tools", about: "what the agent may use", run: tools },
    {
      name: "allow",
      about: "allow tools, such as Bash(git *)",
      hint: "<rules>",
      run: (c, rules) => rights(c, "allow", rules),
    },
    { name: "deny", about: "refuse tools", hint: "<rules>", run: (c, rules) => rights(c, "deny", rules) },
    { name: "compact", about: "shorten the conversation that the model gets", run: compact },
    { name: "diff", about: "what the conversation changed in files", run: diff },
    { name: "undo", about: "take its changes of files back; asks first", run: undo },
    { name: "cost", about: "tokens and money so far", run: cost },
    { name: "btw", about: "ask something aside, while the agent works", hint: "<question>", run: btw },
    { name: "fork", about: "continue in a copy; the original stays as it is", run: fork },
    { name: "resume", about: "continue another conversation", values: () => resumeValues(chat), run: resume },
    { name: "new", about: "begin a new conversation", run: begin },
    { name: "quit", about: "leave; the conversation can be resumed", run: quit },
    { name: "help", about: "commands and keys", run: help },
  ];
}

async function model(chat: ChatActions, args: string): Promise<void> {
  const { provider, model } = splitModel(args, await providerNames(chat));
  if (args === "") {
    chat.print(await currentModel(chat));
    return;
  }
  if (chat.uuid !== null) {
    const env = chat.options.env;
    const set = await chat.link.request("set_model", { uuid: chat.uuid, provider, model, env });
    chat.print(`model: ${set.provider}/${set.model}${set.applied ? "" : ", from the next step on"}`);
    return;
  }
  chat.options.provider = provider ?? chat.options.provider;
  chat.options.model = model;
  chat.print(`model of the new conversation: ${[provider, model].filter(Boolean).join("/")}`);
}

async function currentModel(chat: ChatActions): Promise<string> {
  if (chat.uuid === null) return `a new conversation runs on ${await runsOn(chat)}`;
  const { provider, model } = await chat.link.request("show", { uuid: chat.uuid });
  return `model: ${provider}/${model}`;
}

/** The model and agent of a new conversation, or that there is none. */
export async function runsOn(chat: Pick<ChatActions, "link" | "io" | "options">): Promise<string> {
  const { providers } = await chat.link.request("list_providers", project(chat.io));
  const named = chat.options.provider ?? chat.io.env.RNIX_PROVIDER;
  const chosen = providers.find((one) => (named ? one.name === named : one.chosen));
  if (chosen === undefined) return "no provider can be used yet: rnix setup";
  const model = chat.options.model ?? chat.io.env.RNIX_MODEL ?? chosen.model ?? "a model that must be named";
  return `${chosen.name}/${model}, agent ${chat.options.agent ?? "default"}`;
}

async function providerNames(chat: ChatActions): Promise<string[]> {
  const { providers } = await chat.link.request("list_providers", project(chat.io));
  return providers.map(({ name }) => name);
}

/** `openai/gpt-5` names both; a slash may also be a part of a model's name. */
function splitModel(args: string, providers: readonly string[]): { provider?: string; model: string } {
  const cut = args.indexOf("/");
  const provider = args.slice(0, Math.max(0, cut));
  return providers.includes(provider) ? { provider, model: args.slice(cut + 1) } : { model: args };
}

async function modelValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const { models } = await chat.link.request("list_models", project(chat.io));
  return models.map(({ provider, model, context_window, price }) => ({
    value: `${provider}/${model}`,
    about: [
      ...(context_window === null ? [] : [`${formatCount(context_window)} tokens`]),
      ...(price === null ? [] : [`$${price.input}/$${price.output} per million`]),
    ].join(", "),
  }));
}

async function agent(chat: ChatActions, name: string): Promise<void> {
  const known = await agentValues(chat);
  if (name === "") {
    const list = known.map(({ value, about }) => `  ${value}  ${about}`).join("\n");
    chat.print(`agent of a new conversation: ${chat.options.agent ?? "default"}\n${list}`);
    return;
  }
  if (!known.some(({ value }) => value === name)) {
    throw new SyscallError("INVALID", `there is no agent ${JSON.stringify(name)}: /agent lists them`);
  }
  chat.options.agent = name;
  if (chat.uuid === null) {
    chat.print(`agent: ${name}`);
    return;
  }
  const { uuid } = chat;
  await chat.begin();
  chat.print(`your next message begins a new conversation with ${name}; /resume ${uuid} returns to this one`);
}

async function agentValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const { agents } = await chat.link.request("list_agents", project(chat.io));
  return agents.map(({ name, description }) => ({ value: name, about: oneLine(description, INTENT_WIDTH) }));
}

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

async function rights(chat: ChatActions, method: "allow" | "deny", args: string): Promise<void> {
  const rules = splitToolRules(args).filter((rule) => rule !== "");
  if (rules.length === 0)
    throw new SyscallError("INVALID", `/${method} needs a rule, such as Read or Bash(git *)`);
  if (chat.uuid === null) {
    await requireTools(chat, rules);
    chat.options[method] = [...(chat.options[method] ?? []), ...rules];
    chat.print(`${method} in the new conversation: ${(chat.options[method] ?? []).join(", ")}`);
    return;
  }
  const { allowed_tools, denied_tools } = await chat.link.request(method, { uuid: chat.uuid, tools: rules });
  const denied = denied_tools.length > 0 ? `\ndenied: ${denied_tools.join(", ")}` : "";
  chat.print(`the agent may use: ${allowed_tools.join(", ") || "nothing"}${denied}`);
}

/** A rule for a tool that is not there would be refused with each message. Tools of MCP servers are known only later. */
async function requireTools(chat: ChatActions, rules: readonly string[]): Promise<void> {
  const { tools } = await chat.link.request("list_tools", project(chat.io));
  const names = new Set(tools.map(({ name }) => name));
  const wrong = rules.find(
    (rule) => /^[A-Z][A-Za-z]+(?:\(|$)/.test(rule) && !names.has(rule.replace(/\(.*/s, "")),
  );
  if (wrong !== undefined)
    throw new SyscallError("INVALID", `there is no tool ${JSON.stringify(wrong)}: /tools lists them`);
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
  if (chat.uuid === null) {
    chat.print("nothing was used yet");
    return;
  }
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
  if (question === "") throw new SyscallError("INVALID", "/btw needs a question");
  chat.aside(question);
}

async function fork(chat: ChatActions): Promise<void> {
  if (chat.uuid === null) throw new SyscallError("INVALID", "there is no conversation to fork yet");
  const origin = chat.uuid;
  const { uuid } = await chat.link.fork(origin);
  await chat.change({ uuid, state: "live" });
  chat.print(`this is a copy: ${uuid}\nthe original stays as it is: /resume ${origin}`);
}

async function resume(chat: ChatActions, args: string): Promise<void> {
  if (args !== "") {
    const info = await chat.link.request("show", target(chat.io, args.split(/\s/)[0] ?? ""));
    await chat.change(pastRun(info));
    return;
  }
  const runs = (await conversations(chat)).filter(({ uuid }) => uuid !== chat.uuid);
  if (runs.length === 0) {
    chat.print("there is no other conversation in this project");
    return;
  }
  const choices = runs.map((info) => ({
    value: info,
    label: titleOf(info),
    about: sideOf(info, Date.now()),
  }));
  const chosen = await chat.pick("Continue which conversation?", choices);
  if (chosen !== null) await chat.change(pastRun(chosen));
}

async function resumeValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const now = Date.now();
  return (await conversations(chat)).map((info) => ({
    value: info.uuid,
    about: `${sideOf(info, now)}  ${titleOf(info)}`,
  }));
}

/** The project's conversations, the one used last first. */
export async function conversations(chat: Pick<ChatActions, "link" | "io">): Promise<ProcInfo[]> {
  const { processes } = await chat.link.request("list_all_procs", { cwd: chat.io.cwd });
  return processes
    .filter((info) => info.chat && info.parent_uuid === null && !info.foreign)
    .toSorted((a, b) => lastUsed(b) - lastUsed(a))
    .slice(0, MAX_RESUMABLE);
}

export function pastRun({
  uuid,
  state,
  ended_at_ms,
}: Pick<ProcInfo, "uuid" | "state" | "ended_at_ms">): PastRun {
  if (state === "suspended") return { uuid, state: "suspended" };
  return { uuid, state: ended_at_ms === null ? "live" : "ended" };
}

function lastUsed({ ended_at_ms, created_at_ms }: ProcInfo): number {
  return ended_at_ms ?? Math.max(created_at_ms, Date.now());
}

function titleOf({ intent }: ProcInfo): string {
  return oneLine(intent, INTENT_WIDTH) || "(no message yet)";
}

function sideOf(info: ProcInfo, now: number): string {
  const age =
    info.ended_at_ms === null ? "live" : `${formatElapsed(Math.max(0, now - info.ended_at_ms))} ago`;
  return [
    age,
    plural(info.steps, "step"),
    ...(info.cost_usd === null ? [] : [formatCost(info.cost_usd)]),
  ].join(", ");
}

async function begin(chat: ChatActions): Promise<void> {
  const { uuid } = chat;
  await chat.begin();
  chat.print(
    uuid === null
      ? "this is a new conversation"
      : `your next message begins a new conversation; /resume ${uuid} returns`,
  );
}

async function quit(chat: ChatActions): Promise<void> {
  chat.leave();
}

async function help(chat: ChatActions): Promise<void> {
  const commands = chatCommands(chat);
  const width = Math.max(...commands.map(({ name, hint = "" }) => name.length + hint.length + 1));
  const rows = commands.map(({ name, hint, about }) => {
    const shown = hint === undefined ? `/${name}` : `/${name} ${hint}`;
    return `  ${shown.padEnd(width + 3)}${about}`;
  });
  chat.print(
    [
      "commands",
      ...rows,
      "",
      "keys",
      ...KEYS.map(([key, about]) => `  ${key.padEnd(width + 3)}${about}`),
    ].join("\n"),
  );
}

const KEYS: readonly [string, string][] = [
  ["enter", "send; while the agent works: for its next step"],
  ["alt-enter", "a new line; while the agent works: send after its answer"],
  ["shift-enter, \\", "a new line"],
  ["esc", "stop the agent; waiting messages return to the line"],
  ["ctrl-s", "send waiting messages now, interrupting"],
  ["up, alt-up", "edit waiting messages; past messages"],
  ["ctrl-r", "search past messages"],
  ["ctrl-g", "write in $EDITOR"],
  ["ctrl-v", "attach the picture of the clipboard"],
  ["ctrl-o", "results in full or in short"],
  ["ctrl-c", "suspend the agent, then kill it; clear the line; leave"],
  ["ctrl-d", "leave; a working agent continues"],
];

function needsLive(what: string): SyscallError {
  return new SyscallError("INVALID", `${what} while the conversation is live: send a message first`);
}
