/** The syscalls of capabilities: granting and revoking rights of live processes. */

import type { AskMode } from "../lib/ask-modes.ts";
import { messageOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { modeNews } from "./asks/ask-text.ts";
import { modeName } from "./permission/ask-rules.ts";
import type { Permissions } from "./permission/permissions.ts";
import type { Rule } from "./permission/rule.ts";
import type { Process } from "./process/process.ts";
import type { Io } from "./tiers/io.ts";
import { namesMessageTools } from "./tools/tool-catalog.ts";
import type { PID } from "./types.ts";

/** The tools that a process may use. */
export interface Rights {
  allowed: string[];
  /** Denied, whatever is allowed. */
  denied: string[];
}

/** One change of the rights of a process and its descendants. */
interface Change {
  after: Permissions;
  /** The author of the change, as the model's notice names it. */
  who: string;
  /** The notice for one process; "" for none. */
  news(before: Permissions, after: Permissions): string;
  /** An unread notice that the change makes untrue: it is withdrawn instead. */
  undone?(before: Permissions, after: Permissions): string;
}

/**
 * CapGrant and CapRevoke change the rights of a live process and its descendants: no process holds more
 * than its parent. A change applies from the next Open on, is on disk at once, and the models are notified. CapCheck is
 * part of every Open (files/file-grants.ts).
 */
export class CapabilityManager {
  readonly #parts: Io;

  constructor(parts: Io) {
    this.#parts = parts;
  }

  /**
   * Allows a process what these rules cover. `by` is the granting process, absent for PID 0. A process grants rights that
   * it holds, to its descendants, and only within the rights of the target's parent. Fails with INVALID for an unknown
   * name, PERMISSION for a missing right and NOT_FOUND for an ended target. `folders`: of PID 0 only, absolute, with
   * links resolved; they are opened as by a person's yes.
   */
  async grant(
    pid: PID,
    texts: readonly string[],
    by?: Process,
    folders: readonly string[] = [],
  ): Promise<Rights> {
    return this.#call(
      "CapGrant",
      pid,
      { rules: [...texts], ...(folders.length > 0 && { folders }) },
      by,
      (proc, rules) => {
        // A folder is opened to a whole tree, because no process has more than its parent.
        const [root] = this.#above(proc);
        if (folders.length > 0 && root) {
          const message = `PID ${proc.pid} is below PID ${root.pid}, and no process has more folders than its parent. Open it there: rnix allow ${root.pid} --add FOLDER`;
          throw new SyscallError("PERMISSION", message);
        }
        if (by) this.#checkGrantor(by, proc, rules);
        this.#checkAbove(proc, rules);
        const lift = this.#parts.table.parent(proc) === undefined;
        const after = proc.permissions.grant(rules, by?.uuid ?? null, { lift });
        for (const rule of rules) {
          const why = after.lacks(rule);
          if (why === null) continue;
          const message = `PID ${pid} would still not be allowed ${rule.text}: ${why}. To remove a deny rule, its author or PID 0 must grant the same rule.`;
          throw new SyscallError("PERMISSION", message);
        }
        // A grant by name shows them, also where * allowed them before.
        if (namesMessageTools(...texts)) proc.toolset.messaging = true;
        const opened = folders.length === 0 ? "" : `The user has opened ${folders.join(", ")} to this run.`;
        return {
          after: after.opening(folders.map((dir) => ({ dir, write: true }))),
          who: nameOf(by),
          news: (before, now) => [gained(rules, before, now, nameOf(by)), opened].filter(Boolean).join(" "),
        };
      },
    );
  }

  /**
   * Denies a process and its descendants what these rules cover, until the author of the rule or PID 0 grants the same
   * rule. Running calls fail with PERMISSION; files that the processes opened themselves are closed when this resolves.
   * A process revokes from its descendants and from itself.
   */
  async revoke(pid: PID, texts: readonly string[], by?: Process): Promise<Rights> {
    return this.#call("CapRevoke", pid, { rules: [...texts] }, by, (proc, rules) => {
      if (by && by !== proc) this.#checkBelow(by, proc);
      const after = proc.permissions.revoke(rules, by?.uuid ?? null);
      return { after, who: nameOf(by), news: (before) => lost(rules, before, nameOf(by)) };
    });
  }

  /** Allows calls without a question, for the rest of the run and for its children. Open questions may be answered by it. */
  allowUnasked(pid: PID, texts: readonly string[]): void {
    const proc = this.#live(pid);
    this.#parts.table.setPermissions(proc, proc.permissions.allowAlways(texts, "run"));
    this.#announce(proc);
    this.#parts.asks.recheck(texts.join(", "));
  }

  /**
   * Sets the mode of a process by PID 0, and returns the one that counts: a child's is never looser than its parent's.
   * It holds from the next Open on, and a question that needs no answer any more is answered.
   */
  async setMode(pid: PID, mode: AskMode): Promise<AskMode> {
    const { table, debug, watchers, asks } = this.#parts;
    const { now, done } = debug.callNow(undefined, pid, "SetMode", { pid, mode }, () => {
      const proc = this.#live(pid);
      const before = new Map(table.tree(proc).map((member) => [member, member.permissions.askMode]));
      const after = proc.permissions.asking([], mode);
      const news = (old: Permissions, fresh: Permissions): string => modeNews(old.askMode, fresh.askMode);
      const undone = (old: Permissions, fresh: Permissions): string => news(fresh, old);
      const applied = this.#apply(proc, { after, who: nameOf(undefined), news, undone }, undefined);
      for (const [member, old] of before) {
        const { askMode } = member.permissions;
        if (askMode !== old) watchers.emit(member, { event: "mode", mode: askMode });
      }
      return { now: proc.permissions.askMode, done: applied };
    });
    asks.recheck(modeName(now));
    await done;
    return now;
  }

  /** The change is synchronous; closing the files that it withdraws may take longer. */
  async #call(
    syscall: "CapGrant" | "CapRevoke",
    pid: PID,
    args: { rules: string[]; folders?: readonly string[] },
    by: Process | undefined,
    plan: (proc: Process, rules: readonly Rule[]) => Change,
  ): Promise<Rights> {
    const { rights, closed } = this.#parts.debug.callNow(by, pid, syscall, { pid, ...args }, () => {
      const proc = this.#live(pid);
      const done = this.#apply(proc, plan(proc, proc.permissions.rules(args.rules)), by);
      const rights = { allowed: proc.permissions.allowedTools(), denied: proc.permissions.deniedTools() };
      return { rights, closed: done };
    });
    await closed;
    return rights;
  }

  #live(pid: PID): Process {
    const proc = this.#parts.table.get(pid);
    if (isLive(proc)) return proc;
    throw new SyscallError("NOT_FOUND", `PID ${pid} has ended or is ending: its rights can't be changed.`, {
      pid,
    });
  }

  /** Its live ancestors, the oldest first. */
  #above(proc: Process): Process[] {
    return this.#parts.table.ancestry(proc).slice(1).reverse();
  }

  #checkBelow(by: Process, proc: Process): void {
    if (this.#above(proc).includes(by)) return;
    const message = `PID ${by.pid} can't change the rights of PID ${proc.pid}: a process changes the rights of its descendants only.`;
    throw new SyscallError("PERMISSION", message);
  }

  #checkGrantor(by: Process, proc: Process, rules: readonly Rule[]): void {
    this.#checkBelow(by, proc);
    for (const rule of rules) {
      const why = by.permissions.lacks(rule);
      if (why === null) continue;
      throw new SyscallError("PERMISSION", `PID ${by.pid} does not hold ${rule.text} itself: ${why}.`);
    }
  }

  #checkAbove(proc: Process, rules: readonly Rule[]): void {
    for (const rule of rules) {
      for (const holder of this.#above(proc)) {
        const why = holder.permissions.lacks(rule);
        if (why === null) continue;
        const message = `PID ${holder.pid}, above PID ${proc.pid}, does not hold ${rule.text} (${why}), and no process holds more than its parent. Allow it there first: rnix allow ${holder.pid} '${rule.text}'`;
        throw new SyscallError("PERMISSION", message);
      }
    }
  }

  /**
   * Changes the whole tree synchronously, so that no process ever holds more than its parent. The promise resolves when
   * the models' inboxes have the notices and withdrawn files are closed.
   */
  async #apply(proc: Process, change: Change, by: Process | undefined): Promise<void> {
    const { table, files } = this.#parts;
    const tree = table.tree(proc).map((member) => ({ member, before: member.permissions }));
    table.setPermissions(proc, change.after);
    const closed = tree.map(({ member }) => files.withdraw(member, change.who));
    for (const { member } of tree) this.#announce(member);
    const notified = tree
      .filter(({ member }) => member !== by)
      .map(({ member, before }) => this.#notify(member, before, change));
    await Promise.all([...closed, ...notified]);
  }

  /** Updates the record and the tools that the model is shown. */
  #announce(proc: Process): void {
    if (!isLive(proc)) return;
    try {
      this.#parts.showNewTools(proc);
    } catch (thrown) {
      this.#warn(proc, thrown);
    }
    // The spawn writes the record of a process that is being built.
    if (proc.state === "running") void this.#parts.saveInfo(proc);
  }

  async #notify(proc: Process, before: Permissions, change: Change): Promise<void> {
    const after = proc.permissions;
    const news = change.news(before, after);
    const undone = change.undone?.(before, after);
    if (news === "" || proc.spec.kind !== "agent" || proc.state !== "running" || proc.stopped) return;
    try {
      const { inboxes, notifyAsKernel } = this.#parts;
      if (undone !== undefined && (await inboxes.of(proc).takeBackNotice(undone))) return;
      await notifyAsKernel(proc, news);
    } catch (thrown) {
      // The process ends now: its model needs no notice.
      if (thrown instanceof SyscallError && thrown.code === "CLOSED") return;
      // A full inbox: the change stands, and refused calls say why.
      this.#warn(proc, thrown);
    }
  }

  #warn(proc: Process, thrown: unknown): void {
    this.#parts.warn(`PID ${proc.pid}`, `the notice of its changed rights: ${messageOf(thrown)}`);
  }
}

function isLive(proc: Process): boolean {
  return (proc.state === "created" || proc.state === "running") && !proc.stopped && !proc.ending;
}

function nameOf(by: Process | undefined): string {
  return by ? `PID ${by.pid}` : "the operator (PID 0)";
}

function gained(rules: readonly Rule[], before: Permissions, after: Permissions, who: string): string {
  const fresh = rules.filter((rule) => before.lacks(rule) !== null && after.lacks(rule) === null);
  if (fresh.length === 0) return "";
  return `You may now use ${listed(fresh)}: ${who} has allowed it.`;
}

function lost(rules: readonly Rule[], before: Permissions, who: string): string {
  const gone = rules.filter((rule) => before.touches(rule) && !before.deniedTools().includes(rule.text));
  if (gone.length === 0) return "";
  return `${listed(gone)} was withdrawn by ${who}: calls of it are refused from now on. Continue without it, or say what you can't do.`;
}

function listed(rules: readonly Rule[]): string {
  return rules.map(({ text }) => text).join(", ");
}
