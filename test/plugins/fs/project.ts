import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import plugin from "../../../plugins/fs/index.ts";
import {
  O_RDWR,
  type OpenContext,
  type OpenFlag,
  type SyscallError,
  type VFSFile,
} from "../../../src/plugin/index.ts";
import { type Notes, testContext } from "../../support/conformance/context.ts";
import { exchange, text } from "../../support/conformance/vfs-file.ts";
import { failure } from "../../support/failure.ts";

export const SECRET = "the secret of another project";

/** A project in a temporary folder, a folder beside it that no run may touch, and the device on it. */
export class Project implements Disposable {
  readonly dir: string;
  readonly outside: string;
  readonly context: OpenContext;
  readonly notes: Notes;
  readonly #root: string;

  constructor(more: Partial<OpenContext> = {}) {
    this.#root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-fs-")));
    this.dir = join(this.#root, "project");
    this.outside = join(this.#root, "outside");
    mkdirSync(this.dir);
    mkdirSync(this.outside);
    writeFileSync(join(this.outside, "secret.txt"), SECRET);
    const made = testContext(this.dir, more);
    this.context = made.context;
    this.notes = made.notes;
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  put(name: string, content: string | Uint8Array): string {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), content);
    return this.path(name);
  }

  text(name: string): string {
    return readFileSync(this.path(name), "utf8");
  }

  async open(subpath: string, flags: OpenFlag = O_RDWR, context = this.context): Promise<VFSFile> {
    return plugin.devices["/dev/fs"].factory(subpath, flags, context);
  }

  /** One operation on /dev/fs: its answer. */
  async run(operation: object, signal?: AbortSignal, context = this.context): Promise<string> {
    const file = await this.open("", O_RDWR, context);
    try {
      return text(await exchange(file, JSON.stringify(operation), { signal }));
    } finally {
      await file.close();
    }
  }

  fails(operation: object, signal?: AbortSignal, context = this.context): Promise<SyscallError> {
    return failure(() => this.run(operation, signal, context));
  }

  [Symbol.dispose](): void {
    rmSync(this.#root, { recursive: true, force: true });
  }
}
