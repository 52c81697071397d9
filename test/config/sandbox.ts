import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { ConfigSources, EmbeddedFile } from "../../src/config/config-sources.ts";
import { findProject, type Project } from "../../src/config/project/project.ts";
import { Trust, trustAll } from "../../src/config/trust/trust.ts";
import { SyscallError } from "../../src/plugin/index.ts";

/** A user with a home and one project in it, in a folder of its own that is removed afterwards. */
export class Sandbox implements Disposable {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-config-")));
  readonly home = join(this.dir, "home");
  readonly configDir = join(this.home, ".config/rnix");
  readonly userDataDir = join(this.home, ".local/share/rnix");
  readonly projectDir = join(this.home, "work");
  readonly uid = process.getuid?.() ?? 0;
  agents: EmbeddedFile[] = [];
  skills: EmbeddedFile[] = [];

  constructor() {
    mkdirSync(join(this.projectDir, ".rnix"), { recursive: true });
    mkdirSync(this.configDir, { recursive: true });
  }

  /** Writes a file by its path below the sandbox's folder, and returns it whole. */
  write(path: string, text: string, mode = 0o644): string {
    const file = join(this.dir, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text, { mode });
    return file;
  }

  folder(path: string, mode = 0o755): string {
    const dir = join(this.dir, path);
    mkdirSync(dir, { recursive: true, mode });
    return dir;
  }

  project(cwd = this.projectDir): Project {
    return findProject({ cwd, home: this.home, uid: this.uid, env: {} });
  }

  trust(project = this.project()): Trust {
    return new Trust(this.userDataDir, project);
  }

  sources(project = this.project()): ConfigSources {
    const { configDir, home, agents, skills } = this;
    return { project, trust: this.trust(project), configDir, home, agents, skills };
  }

  /** The same for a run with `--trust`. */
  trusted(project = this.project()): ConfigSources {
    return { ...this.sources(project), trust: trustAll };
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** The error that a call fails with; fails the test when there is none, or another. */
export async function failure(call: () => unknown): Promise<SyscallError> {
  try {
    await call();
  } catch (error) {
    if (error instanceof SyscallError) return error;
    throw error;
  }
  throw new Error("expected the call to fail");
}
