/** Gets the user's attention when a long run or turn has ended, or asks: the terminal's bell and a desktop notification. */

import type { SettingValues } from "../../options/settings.ts";
import type { Receipt, StreamEvent } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { environment, type Io } from "../io.ts";
import { oneLine } from "../output/format.ts";

const BELL = "\x07";
const ESC = "\x1b";
const TEXT_WIDTH = 120;
/** No setting is read for a shorter wait: the user is still there. */
const SHORT_MS = 1000;

interface Occasion {
  /** What has ended or asks, such as "rnix: done: fix the test". */
  text: string;
  /** How long the user has waited for it. A shorter wait than the settings name is not worth a sound. */
  waitedMs: number;
}

/** Notifies when a run that the user waits for ends or asks. */
export class Attention {
  readonly #io: Io;
  readonly #now: () => number;
  #since: number;
  #intent = "";

  constructor(io: Io, now: () => number = Date.now) {
    this.#io = io;
    this.#now = now;
    this.#since = now();
  }

  async seen(event: StreamEvent): Promise<void> {
    if (event.type === "progress" && event.payload.event === "spawn") this.#intent = event.payload.intent;
    if (event.type === "complete") await this.#get(endOf(event.payload));
    if (event.type === "ask_user") await this.#get("asks");
  }

  async #get(what: string): Promise<void> {
    const waitedMs = this.#now() - this.#since;
    this.#since = this.#now();
    if (waitedMs >= SHORT_MS) await notify(this.#io, { text: `rnix: ${what}: ${this.#intent}`, waitedMs });
  }
}

function endOf({ exit_code }: Pick<Receipt, "exit_code">): string {
  if (exit_code === EXIT.ok) return "done";
  return exit_code === EXIT.suspended ? "suspended" : "failed";
}

/** Rings and notifies at the terminal that is stderr, if the settings ask for it. Does nothing elsewhere. */
export async function notify(io: Io, occasion: Occasion): Promise<void> {
  if (!io.stderr.isTTY) return;
  const { settingValues } = await import("../../server/offline-commands.ts");
  const settings = await settingValues({ cwd: io.cwd, env: environment(io) });
  const sequence = attentionSequence(occasion, settings, io.env);
  if (sequence !== "") io.stderr.writeBytes(Buffer.from(sequence));
}

/** The control sequence that the terminal is sent; "" for none. 0 in the settings means never. */
export function attentionSequence(
  { text, waitedMs }: Occasion,
  { bell, desktop_notice }: Pick<SettingValues, "bell" | "desktop_notice">,
  env: Io["env"],
): string {
  const rings = bell > 0 && waitedMs >= bell;
  const notifies = desktop_notice > 0 && waitedMs >= desktop_notice;
  return (notifies ? desktopNotice(oneLine(text, TEXT_WIDTH), env) : "") + (rings ? BELL : "");
}

/** OSC 777 where the terminal is known to take it, else OSC 9. tmux passes it on with `allow-passthrough`. */
function desktopNotice(text: string, env: Io["env"]): string {
  const takes777 = env.VTE_VERSION !== undefined || /^(?:foot|rxvt)/.test(env.TERM ?? "");
  // A semicolon would end the text.
  const body = text.replaceAll(";", ",");
  const sequence = takes777 ? `${ESC}]777;notify;rnix;${body}${BELL}` : `${ESC}]9;${body}${BELL}`;
  return env.TMUX ? `${ESC}Ptmux;${sequence.replaceAll(ESC, ESC + ESC)}${ESC}\\` : sequence;
}
