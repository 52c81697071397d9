import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { openLsp } from "../../../plugins/lsp/operations.ts";
import { openContext, type RealContext } from "../../support/open-context.ts";

const ROOT = join(import.meta.dir, "../../..");

/** A project on disk, and calls of the device with programs that really run. */
export class LspProject implements AsyncDisposable {
  readonly #base = realpathSync(mkdtempSync(join(tmpdir(), "rnix-lsp-")));
  readonly dir = join(this.#base, "project");
  readonly #real: RealContext;

  constructor(files: Readonly<Record<string, string>>, config: object = {}) {
    for (const [name, text] of Object.entries(files)) this.write(name, text);
    const env = { PATH: `${join(ROOT, "node_modules/.bin")}:${process.env.PATH}`, HOME: this.#base };
    this.#real = openContext(this.dir, join(this.#base, "kept"), { config, env });
  }

  write(name: string, text: string): void {
    const path = join(this.dir, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }

  async call(operation: string, file: string, more: object = {}): Promise<string> {
    const signal = AbortSignal.timeout(100_000);
    const open = openLsp("", this.#real.context);
    await open.write(JSON.stringify({ op: "lsp", operation, file, ...more }), signal);
    return await open.read(1_000_000, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#real[Symbol.asyncDispose]();
    rmSync(this.#base, { recursive: true, force: true });
  }
}

/** The server of TypeScript 7 is the compiler itself; typescript-language-server drives version 5. */
export const TYPESCRIPT = {
  servers: {
    typescript: {
      options: {
        disableAutomaticTypingAcquisition: true,
        tsserver: { useSyntaxServer: "never", path: join(ROOT, "node_modules/typescript-5/lib/tsserver.js") },
      },
    },
  },
};
