/** Commands that the user runs in the shell by `!command`: their output is shown, and kept for the next message. */

import { TextTail } from "../../lib/text-tail.ts";
import { type RunningShell, startShell } from "../../os/user-programs.ts";
import { framed } from "../../plugin/frame.ts";
import { usageError } from "../exit.ts";
import type { Io } from "../io.ts";
import { formatSeconds, oneLine } from "../output/format.ts";
import { cutTo, type Look, plainLines, wrapTo } from "../terminal/look.ts";

/** The end of an output that the model gets, in characters. */
const MAX_CHARS = 30_000;
/** Lines of an output while the command runs, and afterwards. */
const LIVE_LINES = 5;
const SHOWN_LINES = 20;
const CLOCK_MS = 1000;

interface ShellPorts {
  io: Pick<Io, "env">;
  cwd: string;
  look: Look;
  changed(): void;
  /** Prints a block of styled lines. */
  print(lines: (columns: number) => string[]): void;
}

interface RunningCommand {
  line: string;
  isPrivate: boolean;
  shell: RunningShell;
  tail: TextTail;
  chars: number;
  startedMs: number;
  isStopped: boolean;
}

/** A message takes the outputs since the one before with it. */
export interface TakenOutputs {
  /** What the model gets behind the message; "" for none. */
  text: string;
  /** The message did not reach the model: the next one takes them. */
  giveBack(): void;
}

/** `!command`, or `!!command` whose output is kept from the model; null for other text. */
export function shellLine(text: string): { line: string; isPrivate: boolean } | null {
  const match = /^(!!?)\s*([\s\S]*)$/.exec(text);
  return match === null ? null : { line: match[2] ?? "", isPrivate: match[1] === "!!" };
}

export class UserShell {
  readonly #p: ShellPorts;
  #running: RunningCommand | null = null;
  #outputs: string[] = [];

  constructor(ports: ShellPorts) {
    this.#p = ports;
  }

  /** Runs a line to its end. Fails with INVALID while another one runs. */
  async run({ line, isPrivate }: { line: string; isPrivate: boolean }): Promise<void> {
    if (line === "") throw usageError("! needs a command, such as !git status");
    if (this.#running !== null)
      throw usageError(`${oneLine(this.#running.line, 60)} still runs: Esc ends it`);
    const { io, cwd, changed, look } = this.#p;
    const tail = new TextTail(MAX_CHARS);
    const startedMs = Date.now();
    const onText = (text: string): void => {
      tail.add(text);
      running.chars += text.length;
      changed();
    };
    const shell = startShell(line, { cwd, env: io.env, onText });
    const running: RunningCommand = { line, isPrivate, shell, tail, startedMs, chars: 0, isStopped: false };
    this.#running = running;
    changed();
    const clock = setInterval(changed, CLOCK_MS);
    const code = await shell.done;
    clearInterval(clock);
    this.#running = null;
    const end = running.isStopped ? "stopped" : code === null ? "ended by a signal" : `exited ${code}`;
    if (!isPrivate) this.#outputs.push(framed("command", outputOf(running), { line, end }));
    const parts = [end, formatSeconds(Date.now() - startedMs), ...(isPrivate ? ["not for the model"] : [])];
    const isGood = code === 0 && !running.isStopped;
    const mark = isGood ? look.green(look.mark.done) : look.red(look.mark.failed);
    this.#p.print((columns) => this.#block(running, mark, parts, SHOWN_LINES, columns));
    changed();
  }

  /** Ends the command that runs. Returns false when there is none. */
  end(): boolean {
    const running = this.#running;
    if (running === null) return false;
    running.isStopped = true;
    running.shell.end();
    return true;
  }

  /** The command that runs, with the end of its output. */
  lines(columns: number): string[] {
    const running = this.#running;
    if (running === null) return [];
    const { look } = this.#p;
    const mark = look.cyan(look.mark.waiting);
    const clock = formatSeconds(Date.now() - running.startedMs);
    return this.#block(running, mark, [clock, "esc: stop"], LIVE_LINES, columns);
  }

  take(): TakenOutputs {
    const taken = this.#outputs.splice(0);
    return {
      text: taken.map((one) => `\n\n${one}`).join(""),
      giveBack: () => {
        this.#outputs = [...taken.splice(0), ...this.#outputs];
      },
    };
  }

  #block(
    { line, tail, isPrivate }: RunningCommand,
    mark: string,
    parts: string[],
    most: number,
    columns: number,
  ): string[] {
    const { look } = this.#p;
    const side = parts.map((part) => `${look.glyph.dot}${part}`).join("");
    const head = `${isPrivate ? "!!" : "!"} ${oneLine(line, columns)}`;
    const name = cutTo(head, columns - 2 - Bun.stringWidth(side), look);
    const all = tail.isEmpty ? [] : wrapTo(plainLines(tail.text).join("\n"), columns - 4);

    const above = all.length > most ? [`${look.mark.ellipsis} the last ${most} lines`] : [];
    const shown = [...above, ...all.slice(-most)].map((one) => look.dim(`  ${look.mark.bar} ${one}`));
    return [`${mark} ${name}${look.dim(side)}`, ...shown];
  }
}

/** What the model gets of the output. */
function outputOf({ tail, chars }: RunningCommand): string {
  const text = plainLines(tail.text).join("\n");
  const missing = chars - MAX_CHARS;
  return missing > 0 ? `[${missing} characters before this were left out]\n${text}` : text;
}
