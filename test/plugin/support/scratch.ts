import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A temporary folder that goes with its scope. */
export class Scratch implements Disposable {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-plugin-")));

  /** Writes a file below the folder and returns its path. */
  write(path: string, text: string): string {
    const file = join(this.dir, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  }

  remove(path: string): void {
    rmSync(join(this.dir, path), { recursive: true, force: true });
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export interface Source {
  /** Before everything: imports, top-level code. */
  top?: string;
  path?: string;
  /** The device's further fields. */
  device?: string;
  /** The plugin's further fields. */
  plugin?: string;
  /** Bodies of the file's methods; `input` is what was written, `context` and `signal` are in reach. */
  write?: string;
  /** Sets `answer` by default to what was written. */
  close?: string;
  stat?: string;
  factory?: string;
}

/** The source of a plugin with one device, /dev/<name>, that answers what is written to it. */
export function pluginSource(name: string, s: Source = {}): string {
  const path = s.path ?? `/dev/${name}`;
  return `import { definePlugin, SyscallError, type OpenContext, type VFSFile } from "rnix/plugin";
${s.top ?? ""}
function open(subpath: string, flags: number, context: OpenContext): VFSFile {
  ${s.factory ?? ""}
  let answer = "";
  return {
    async write(data, signal) {
      const input = String(data);
      answer = input;
      ${s.write ?? ""}
    },
    async read(max) {
      const piece = answer.slice(0, max);
      answer = answer.slice(max);
      return piece;
    },
    async close() { ${s.close ?? ""} },
    async stat() { ${s.stat ?? `return { name: "${name}", size: 0, isDevice: true, devicePath: "${path}" };`} },
  };
}
export default definePlugin({ name: "${name}", devices: { "${path}": { factory: open, ${s.device ?? ""} } }, ${s.plugin ?? ""} });
`;
}
