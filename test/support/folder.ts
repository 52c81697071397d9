import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A temporary folder that is removed at its end: `using folder = new Folder();`. */
export class Folder implements Disposable {
  readonly dir: string;

  constructor(parent = tmpdir()) {
    this.dir = realpathSync(mkdtempSync(join(parent, "rnix-test-")));
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  /** Writes a file, with its folders; returns its path. */
  put(name: string, content: string | Uint8Array): string {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), content);
    return this.path(name);
  }

  text(name: string): string {
    return readFileSync(this.path(name), "utf8");
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}
