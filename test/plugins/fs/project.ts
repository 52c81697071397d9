import { mkdirSync } from "node:fs";
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
import { Folder } from "../../support/folder.ts";

export const SECRET = "the secret of another project";

/** A project in a temporary folder, a folder beside it that no run may touch, and the device on it. */
export class Project implements Disposable {
  readonly dir: string;
  readonly outside: string;
  readonly context: OpenContext;
  readonly notes: Notes;
  readonly #root = new Folder();

  constructor(more: Partial<OpenContext> = {}) {
    this.dir = this.#root.path("project");
    mkdirSync(this.dir);
    this.outside = dirname(this.#root.put("outside/secret.txt", SECRET));
    const made = testContext(this.dir, more);
    this.context = made.context;
    this.notes = made.notes;
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  put(name: string, content: string | Uint8Array): string {
    return this.#root.put(`project/${name}`, content);
  }

  text(name: string): string {
    return this.#root.text(`project/${name}`);
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

  /** Replaces a text in f.txt. */
  edit(old_string: string, new_string: string, more: object = {}): Promise<string> {
    return this.run({ op: "edit", path: "f.txt", old_string, new_string, ...more });
  }

  fails(operation: object, signal?: AbortSignal, context = this.context): Promise<SyscallError> {
    return failure(() => this.run(operation, signal, context));
  }

  [Symbol.dispose](): void {
    this.#root[Symbol.dispose]();
  }
}
