/** One open file of /dev/cron. */

import {
  type Data,
  type FileStat,
  O_RDONLY,
  type OpenContext,
  type OpenFlag,
  type Schedule,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { answer, named } from "./operations.ts";

/** `/dev/cron` lists all jobs, `/dev/cron/NAME` is one of them with its last runs. Only `/dev/cron` takes writes. */
export class ScheduleFile implements VFSFile {
  readonly #name: string;
  readonly #flags: OpenFlag;
  readonly #context: OpenContext;
  /** undefined: nothing was written, so a read makes it. */
  #text: string | undefined;

  constructor(subpath: string, flags: OpenFlag, context: OpenContext) {
    this.#name = subpath.replace(/^\//, "");
    this.#flags = flags;
    this.#context = context;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#flags === O_RDONLY || this.#name !== "")
      throw new SyscallError("PERMISSION", "Expected an operation to be written to /dev/cron itself.");
    const text = typeof data === "string" ? data : new TextDecoder().decode(data);
    this.#text = await answer(text, this.#schedule);
  }

  async read(max: number, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    this.#text ??= `${JSON.stringify(await this.#document(), null, 2)}\n`;
    const piece = this.#text.slice(0, max);
    this.#text = this.#text.slice(piece.length);
    return piece;
  }

  async close(): Promise<void> {
    this.#text = "";
  }

  async stat(): Promise<FileStat> {
    const path = this.#name === "" ? "/dev/cron" : `/dev/cron/${this.#name}`;
    return { name: this.#name || "cron", size: 0, isDevice: true, devicePath: path };
  }

  get #schedule(): Schedule {
    const { schedule } = this.#context;
    if (schedule) return schedule;
    throw new SyscallError("UNAVAILABLE", "/dev/cron: this rnix has no schedules.");
  }

  async #document(): Promise<unknown> {
    const jobs = await this.#schedule.list();
    return this.#name === "" ? jobs : { job: named(jobs, this.#name), runs: await this.#lastRuns() };
  }

  #lastRuns() {
    return this.#schedule.history({ name: this.#name, limit: 20 });
  }
}
