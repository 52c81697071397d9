/** The input line of a command that follows one run: what is typed goes to the run's model. */

import { type KeyId, matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { messageOf } from "../../lib/error-detail.ts";
import type { StreamEvent } from "../../protocol/methods.ts";
import { projectOf, userPaths } from "../../server/offline-commands.ts";
import { environment, type Io, type TerminalSize, type Wire } from "../io.ts";
import type { InputSlot } from "../output/run-output.ts";
import { expanded } from "../terminal/draft.ts";
import type { InputLine } from "../terminal/input-line.ts";
import { lookOf } from "../terminal/look.ts";
import type { Frame } from "../terminal/screen.ts";
import { attachedFiles } from "./attached-files.ts";
import { BelowLine } from "./below.ts";
import { Outbox, type When } from "./outbox.ts";
import { projectLine } from "./project-line.ts";

interface RunInputPorts {
  io: Io;
  uuid: string;
  /** A connection for one request. */
  connect(): Promise<Wire>;
  slot: Pick<InputSlot, "rows" | "redraw">;
  say(line: string): void;
}

export class RunInput {
  readonly #ports: RunInputPorts;
  readonly #line: InputLine;
  readonly #outbox: Outbox;
  readonly #below: BelowLine;

  constructor(ports: RunInputPorts) {
    this.#ports = ports;
    const { io, uuid, slot } = ports;
    const redraw = (): void => slot.redraw();
    const look = lookOf(io);
    this.#line = projectLine({
      cwd: io.cwd,
      dataDir: userPaths(io.env).dataDir,
      projectId: projectOf({ cwd: io.cwd, env: io.env }).id,
      style: look,
      commands: () => [],
      rows: () => slot.rows,
      redraw,
    });
    this.#outbox = new Outbox({
      send: async ({ text, files }, when) => {
        const attached = await files();
        const given = { env: environment(io), attended: true as const };
        const sent = { uuid, text, when, ...(attached.length > 0 && { files: attached }), ...given };
        return this.#request((wire) => wire.request("send_message", sent));
      },
      takeBack: (seq) => this.#request((wire) => wire.request("take_back_message", { uuid, seq })),
      changed: redraw,
    });
    this.#below = new BelowLine(
      {
        line: this.#line,
        waiting: () => this.#outbox.waiting,
        hint: () => this.#hint(),
      },
      look,
    );
  }

  frame(size: TerminalSize): Frame {
    return this.#below.frame(size);
  }

  get isEmpty(): boolean {
    return this.#line.isEmpty;
  }

  /** The events that the view gets for one of the stream. */
  take(event: StreamEvent): StreamEvent[] {
    return this.#outbox.shown(event);
  }

  paste(text: string): void {
    this.#line.paste(text);
  }

  key(data: string): void {
    const is = (...keys: KeyId[]): boolean => keys.some((key) => matchesKey(data, key));
    const line = this.#line;
    const isOfText = line.hasMenu || !line.isEmpty;
    if (!line.hasMenu && is("escape")) this.#report(this.#stop());
    else if (is("alt+up") || (is("up") && !isOfText && this.#outbox.waiting.length > 0))
      this.#report(this.#outbox.takeBack().then((draft) => line.putBefore(draft)));
    else if (!line.hasMenu && isOfText && (is("alt+enter", "tab") || data === "\x1b\r"))
      this.#send("after_answer");
    else if (line.key(data) === "submit") this.#send("next_step");
  }

  close(): void {
    this.#line.close();
  }

  #send(when: When): void {
    const { io } = this.#ports;
    const text = this.#line.text.trim();
    if (text === "") return;
    const draft = this.#line.take(true);
    const files = async (): Promise<string[]> => {
      const found = await attachedFiles(draft.shown, io.cwd);
      for (const note of found.notes) this.#ports.say(note);
      return found.files;
    };
    const sent = this.#outbox.send({ draft, text: expanded(draft).trim(), files }, when);
    this.#report(
      sent.catch((error: unknown) => {
        this.#line.putBefore(draft);
        throw error;
      }),
    );
  }

  /** Stops the model or the command; the run waits for a message then. */
  async #stop(): Promise<void> {
    const { uuid } = this.#ports;
    const interrupt = () => this.#request((wire) => wire.request("interrupt", { uuid }, { timeoutMs: null }));
    this.#line.putBefore(await this.#outbox.stop(interrupt));
  }

  async #request<T>(ask: (wire: Wire) => Promise<T>): Promise<T> {
    const wire = await this.#ports.connect();
    try {
      return await ask(wire);
    } finally {
      wire.close();
    }
  }

  #hint(): string {
    if (this.#outbox.waiting.length > 0) return "alt-up: edit  esc: stop";
    return this.#line.isEmpty ? "esc: stop" : "enter: for its next step  alt-enter: after its answer";
  }

  #report(work: Promise<unknown>): void {
    work.catch((error: unknown) => this.#ports.say(messageOf(error)));
  }
}
