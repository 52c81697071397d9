/** A question beside the conversation: an agent without tools answers it from the conversation so far. */

import { messageOf } from "../../lib/error-detail.ts";
import type { StreamEvent } from "../../protocol/methods.ts";
import { usageError } from "../exit.ts";
import { type Look, plainLines, wrapTo } from "../terminal/look.ts";
import type { LogEntry } from "../transcript/transcript.ts";
import type { ChatOptions } from "./actions.ts";
import type { Followed, Link } from "./link.ts";

/** The end of the conversation that the answer is made from. */
const MAX_CHARS = 200_000;
const MAX_ENTRY_CHARS = 4000;
/** Lines of the answer while it arrives. */
const SHOWN_LINES = 8;

interface AsidePorts {
  link: Link;
  look: Look;
  options: ChatOptions;
  changed(): void;
  /** The whole answer, or why there is none. */
  done(lines: (columns: number) => string[]): void;
}

export class Aside {
  readonly #ports: AsidePorts;
  readonly #question: string;
  #answer = "";
  #followed: Followed | null = null;
  #isOver = false;

  constructor(question: string, ports: AsidePorts) {
    this.#question = question;
    this.#ports = ports;
  }

  async ask(uuid: string): Promise<void> {
    const { link, options } = this.#ports;
    try {
      const input = await transcript(link, uuid);
      if (input === "") throw usageError("the conversation has no answer yet");
      const { provider, model } = await link.request("show", { uuid });
      const request = {
        cwd: options.cwd,
        env: options.env,
        provider,
        model,
        allow: [],
        intent: this.#question,
        input,
        system_prompt:
          "Answer the question from the conversation in the input, in a few sentences. You have no tools.",
        max_steps: 2,
        attended: true as const,
      };
      this.#followed = await link.follow("spawn", request, {
        event: (event) => this.#event(event),
        ended: ({ result, error }) =>
          this.#end(result ?? `no answer: ${error?.message ?? "the run has ended"}`),
        lost: (error) => this.#end(`no answer: ${String(error)}`),
      });
    } catch (error) {
      this.#end(`no answer: ${messageOf(error)}`);
    }
  }

  /** While it is being answered. */
  lines(columns: number): string[] {
    const { look } = this.#ports;
    const answer =
      this.#answer === "" ? [look.mark.ellipsis] : wrapTo(plainLines(this.#answer).join("\n"), columns - 4);
    return this.#block(columns, answer.slice(-SHOWN_LINES));
  }

  async close(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    const followed = this.#followed;
    followed?.close();
    if (followed !== null)
      await this.#ports.link.request("signal_tree", { uuid: followed.ref.uuid, signal: 1 });
  }

  #event(event: StreamEvent): void {
    if (event.type !== "text_delta") return;
    this.#answer += event.payload.text;
    this.#ports.changed();
  }

  #end(answer: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#ports.done((columns) => this.#block(columns, wrapTo(plainLines(answer).join("\n"), columns - 4)));
  }

  #block(columns: number, answer: readonly string[]): string[] {
    const { look } = this.#ports;
    const asked = wrapTo(`btw: ${plainLines(this.#question).join("\n")}`, columns - 2);
    return [
      ...asked.map((line) => look.dim(`${look.mark.bar} ${line}`)),
      ...answer.map((line) => look.dim(`${look.mark.bar}   ${line}`)),
    ];
  }
}

async function transcript(link: Link, uuid: string): Promise<string> {
  const parts: string[] = [];
  let chars = 0;
  await link.log(uuid, (entry) => {
    const part = textOf(entry);
    if (part === "") return;
    parts.push(part);
    chars += part.length;
    while (chars > MAX_CHARS) chars -= parts.shift()?.length ?? chars;
  });
  return parts.join("\n\n");
}

function textOf({ kind, text, call }: LogEntry): string {
  const short = (value: string): string => value.slice(0, MAX_ENTRY_CHARS);
  if (kind === "inbox") return `User: ${short(text)}`;
  if (kind === "text") return `Assistant: ${short(text)}`;
  if (kind !== "result" || call === undefined) return "";
  const result = call.error ?? call.result ?? "";
  return `Tool ${call.name} ${short(JSON.stringify(call.input))}: ${short(result)}`;
}
