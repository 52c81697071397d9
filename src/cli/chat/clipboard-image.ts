/** Takes a picture from the clipboard, by the programs that the system has for it. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { outputOf } from "../../os/user-programs.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Io } from "../io.ts";

const TIMEOUT_MS = 3000;
const MAX_BYTES = 20 * 1024 * 1024;
const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47]);

/** Pictures taken from the clipboard, each a file of its own until `close`. */
export class ClipboardImages {
  readonly #io: Pick<Io, "env" | "cwd">;
  #dir: string | undefined;
  #count = 0;

  constructor(io: Pick<Io, "env" | "cwd">) {
    this.#io = io;
  }

  /** The path of the picture; null when the clipboard has none or can't be read. */
  async take(): Promise<string | null> {
    for (const argv of readers(this.#io.env)) {
      const data = await this.#run(argv);
      if (data === null || !Buffer.from(data.subarray(0, PNG.length)).equals(PNG)) continue;
      this.#dir ??= mkdtempSync(join(tmpdir(), "rnix-clipboard-"));
      const file = join(this.#dir, `picture-${++this.#count}.png`);
      writeFileSync(file, data, { mode: 0o600 });
      return file;
    }
    return null;
  }

  close(): void {
    if (this.#dir !== undefined) rmSync(this.#dir, { recursive: true, force: true });
  }

  /** null also for a program that is not installed. */
  async #run(argv: readonly string[]): Promise<Uint8Array | null> {
    const { cwd, env } = this.#io;
    try {
      return await outputOf(argv, { cwd, env, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES });
    } catch (error) {
      if (error instanceof SyscallError) return null;
      throw error;
    }
  }
}

function readers(env: Io["env"]): string[][] {
  if (process.platform === "darwin") return [["pngpaste", "-"]];
  return [
    ...(env.WAYLAND_DISPLAY ? [["wl-paste", "--type", "image/png"]] : []),
    ...(env.DISPLAY ? [["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]] : []),
  ];
}
