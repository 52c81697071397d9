/** What `rnix top` does with a run, each by a key. */

import type { KeyId } from "@earendil-works/pi-tui/dist/keys.js";
import { SIGPAUSE, SIGRESUME, SIGTERM, type Signal } from "../../lib/signals.ts";
import { splitToolRules } from "../../lib/tool-rules.ts";
import type { AskAnswer } from "../../protocol/methods.ts";
import { plural } from "../output/format.ts";
import type { TopLink } from "./link.ts";
import type { TopRun } from "./now.ts";

type Env = Record<string, string>;

export interface Action {
  keys: readonly KeyId[];
  hint?: string;
  about: string;
  /** It is asked first. */
  confirm?: string;
  /** It needs a text: what stands before it. */
  line?: string;
  /** Returns what was done, for the user. */
  send(link: TopLink, run: TopRun, text: string, env: Env): Promise<string>;
}

export const ACTIONS: readonly Action[] = [
  {
    keys: ["k"],
    hint: "kill",
    about: "kill it and all below it",
    confirm: "kill",
    send: signal(SIGTERM, "TERM"),
  },
  { keys: ["p"], hint: "pause", about: "pause it and all below it", send: signal(SIGPAUSE, "PAUSE") },
  { keys: ["c"], hint: "continue", about: "let it continue", send: signal(SIGRESUME, "RESUME") },
  {
    keys: ["s"],
    hint: "suspend",
    about: "suspend it: it ends, and can be resumed",
    async send(link, { uuid, pid }) {
      await link.request("suspend", { uuid });
      return `process ${pid} is suspended`;
    },
  },
  {
    keys: ["r"],
    hint: "resume",
    about: "resume one that is suspended or has ended",
    send: async (link, { uuid }) => `resumed as process ${(await link.resume(uuid)).pid}`,
  },
  {
    keys: ["m"],
    hint: "message",
    about: "send it a message",
    line: "message to",
    async send(link, { uuid, pid }, text, env) {
      await link.request("send_message", { uuid, text, env });
      return `process ${pid} has the message`;
    },
  },
  { keys: ["shift+a"], about: "allow it a tool, such as Bash(git *)", line: "allow", send: rights("allow") },
  { keys: ["shift+d"], about: "take a tool from it", line: "deny", send: rights("deny") },
];

/** Returns what became of the answer, for the user. */
export async function answer(link: TopLink, id: string, answers: AskAnswer[], env: Env): Promise<string> {
  const request = { request_id: id, answers, via: "rnix top", env };
  const { pid, resumed, problem } = await link.request("answer_user", request);
  if (problem !== undefined) return `answered, but not resumed: ${problem}`;
  return resumed ? `answered; the run was resumed as process ${pid}` : `answered; process ${pid} has it`;
}

function signal(number: Signal, name: string): Action["send"] {
  return async (link, { uuid, pid }) => {
    const { affected } = await link.request("signal_tree", { uuid, signal: number });
    return affected === 0
      ? `process ${pid} has ended already`
      : `${name} sent to ${plural(affected, "process", "processes")}`;
  };
}

function rights(method: "allow" | "deny"): Action["send"] {
  return async (link, { uuid, pid }, text) => {
    await link.request(method, { uuid, tools: splitToolRules(text) });
    return `process ${pid}: ${method} ${text}`;
  };
}
