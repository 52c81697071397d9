/** What the children of an agent have changed in their worktrees. */

import { resolve } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import type { AgentWorktrees, KernelPorts, TakenFile } from "../kernel-ports.ts";
import { writeRefusal } from "../lifetime/child-effects.ts";
import type { Process } from "../process/process.ts";

/** Maximum characters of a patch in a result. */
const MAX_SHOWN = 12_000;

export class WorktreeChanges {
  readonly #p: Pick<KernelPorts, "guarded" | "runs" | "worktrees">;

  constructor(ports: Pick<KernelPorts, "guarded" | "runs" | "worktrees">) {
    this.#p = ports;
  }

  /** The patch of a child as a part of its answer. */
  async summary(parent: Process, uuid: string): Promise<string> {
    const { worktrees, record } = await this.#of(parent, uuid);
    const patch = await worktrees.patch(record).catch((thrown: unknown) => {
      if (thrown instanceof SyscallError) return null;
      throw thrown;
    });
    if (patch === null) return `\n[Its worktree could not be compared; its files stay there. Run: ${uuid}]`;
    if (patch.length === 0) return "\n[It changed nothing in its worktree.]";
    const text = patch.toString();
    const isCut = text.length > MAX_SHOWN;
    const shown = isCut ? `${text.slice(0, MAX_SHOWN)}\n… (${text.length} characters in all)\n` : text;
    return `\n[Its changes are not in your folder yet. TakeDiff (load it by ToolSearch) takes them, with run ${uuid}:]\n${shown}`;
  }

  /** Takes the changes of a child into the parent's folder. A file that the parent may not write is refused. */
  async take(parent: Process, uuid: string, files: readonly string[]): Promise<TakenFile[]> {
    const { worktrees, record } = await this.#of(parent, uuid);
    return worktrees.take(record, parent.spec.opts.project.dir, {
      files: files.map((file) => resolve(parent.spec.opts.cwd, file)),
      dryRun: false,
      refusal: (file) => writeRefusal(parent, file, this.#p.guarded),
    });
  }

  async #of(parent: Process, uuid: string): Promise<{ worktrees: AgentWorktrees; record: string }> {
    const worktrees = await this.#p.worktrees?.();
    if (!worktrees) throw new SyscallError("UNAVAILABLE", "This kernel makes no worktrees.");
    const runs = this.#p.runs(parent.spec.opts.project.dataDir);
    const info = await runs.info(uuid);
    if (info?.parent_uuid !== parent.uuid)
      throw new SyscallError(
        "NOT_FOUND",
        `You have no child ${uuid}: expected the run that Agent has named.`,
      );
    requireOwn(info);
    return { worktrees, record: runs.dir(uuid) };
  }
}
