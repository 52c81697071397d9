import { SyscallError } from "../plugin/index.ts";
import type { Debugger } from "./debugger.ts";
import type { FileSystem } from "./file-system.ts";
import type { Permissions } from "./permission/permissions.ts";
import type { Rule } from "./permission/rule.ts";
import type { Process } from "./process/process.ts";
import type { ProcessTable } from "./process/process-table.ts";
import { namesMessageTools } from "./tools/message-tools.ts";
import type { PID } from "./types.ts";

interface CapabilityManagerPorts {
  table: ProcessTable;
  files: FileSystem;
  debug: Debugger;
  /** Shows a live process the tools it may use by now and was not shown. */
  appendTools(proc: Process): void;
  /** Tells its model something at its next step. */
  notify(proc: Process, text: string): Promise<void> | void;
  /** Writes its record. What goes wrong is told; the change stands. */
  saveInfo(proc: Process): Promise<void>;
  warn(source: string, text: string): void;
}

/** What a process may use. */
export interface Rights {
  allowed: string[];
  /** None of it, whatever is allowed. */
  denied: string[];
}

/** One change of the rights of a process and of all below it. */
interface Change {
  after: Permissions;
  /** Who made it, as a model is told. */
  who: string;
  /** What a process is told of it; "" for nothing. */
  news(before: Permissions, after: Permissions): string;
}

/**
 * CapGrant and CapRevoke (design §2): what a process may do, changed while it lives. What is changed for one
 * holds for all below it, as no process holds more than its parent; it holds from the next Open on, is on disk
 * at once, and the models are told. CapCheck is part of every Open (open-rights.ts).
 */
export class CapabilityManager {
  readonly #ports: CapabilityManagerPorts;

  constructor(ports: CapabilityManagerPorts) {
    this.#ports = ports;
  }

  /**
   * Lets a process use what these rules cover. `by` is the process that grants, none is PID 0. A process grants
   * to those below it, and what it holds itself; nobody grants what the target's parent does not hold.
   * INVALID for an unknown name, PERMISSION says what is missing, NOT_FOUND when the target has ended.
   */
  async grant(pid: PID, texts: readonly string[], by?: Process): Promise<Rights> {
    return this.#call("CapGrant", pid, texts, by, (proc, rules) => {
      if (by) this.#checkGrantor(by, proc, rules);
      this.#checkAbove(proc, rules);
      const lift = this.#parentOf(proc) === undefined;
      const after = proc.permissions.grant(rules, by?.uuid ?? null, { lift });
      for (const rule of rules) {
        const why = after.lacks(rule);
        if (why === null) continue;
        throw new SyscallError(
          "PERMISSION",
          `${rule.text} would still be refused to PID ${pid}: ${why}. A deny rule goes when the same rule is granted by who made it, or by PID 0.`,
        );
      }
      // Who names them wants them shown, also where a star allowed them before.
      if (namesMessageTools(...texts)) proc.messaging = true;
      return { after, who: nameOf(by), news: (before, now) => gained(rules, before, now, nameOf(by)) };
    });
  }

  /**
   * Takes from a process, and from all below it, what these rules cover: each is a deny rule from now on, until
   * who made it, or PID 0, grants the same rule. Calls under way fail with PERMISSION; what the processes have
   * opened themselves is closed when this resolves. A process revokes from those below it, and from itself.
   */
  async revoke(pid: PID, texts: readonly string[], by?: Process): Promise<Rights> {
    return this.#call("CapRevoke", pid, texts, by, (proc, rules) => {
      if (by && by !== proc) this.#checkBelow(by, proc);
      const after = proc.permissions.revoke(rules, by?.uuid ?? null);
      return { after, who: nameOf(by), news: (before) => lost(rules, before, nameOf(by)) };
    });
  }

  /** A skill was loaded that lists its tools: nothing else is left, nor to those below. */
  narrow(proc: Process, skill: string, texts: readonly string[]): void {
    const after = proc.permissions.narrow(texts);
    const news = (before: Permissions, now: Permissions): string => lessNow(before, now, proc.pid);
    // Not waited for: it is called from within a call of that process.
    void this.#apply(proc, { after, who: `the skill ${skill} of PID ${proc.pid}`, news }, proc);
  }

  /** The change itself is over when the syscall is; what was open by it may take longer to close. */
  async #call(
    syscall: "CapGrant" | "CapRevoke",
    pid: PID,
    texts: readonly string[],
    by: Process | undefined,
    plan: (proc: Process, rules: readonly Rule[]) => Change,
  ): Promise<Rights> {
    const { table, debug } = this.#ports;
    const { rights, closed } = debug.callNow(by, table.find(pid), syscall, { pid, rules: [...texts] }, () => {
      const proc = this.#live(pid);
      const done = this.#apply(proc, plan(proc, proc.permissions.rules(texts)), by);
      return { rights: rightsOf(proc.permissions), closed: done };
    });
    await closed;
    return rights;
  }

  #live(pid: PID): Process {
    const proc = this.#ports.table.get(pid);
    if (isLive(proc)) return proc;
    throw new SyscallError(
      "NOT_FOUND",
      `PID ${pid} has ended or is ending: its rights are not changed any more.`,
      {
        pid,
      },
    );
  }

  #parentOf(proc: Process): Process | undefined {
    return proc.ppid === 0 ? undefined : this.#ports.table.find(proc.ppid);
  }

  /** Its living ancestors, the first of them first. */
  #above(proc: Process): Process[] {
    const parent = this.#parentOf(proc);
    return parent ? [...this.#above(parent), parent] : [];
  }

  #checkBelow(by: Process, proc: Process): void {
    if (this.#above(proc).includes(by)) return;
    throw new SyscallError(
      "PERMISSION",
      `PID ${by.pid} can't change the rights of PID ${proc.pid}, which it has not spawned: a process changes those of its descendants.`,
    );
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
        throw new SyscallError(
          "PERMISSION",
          `PID ${holder.pid}, above PID ${proc.pid}, does not hold ${rule.text} (${why}), and no process holds more than its parent. Allow it there first: rnix allow ${holder.pid} '${rule.text}'`,
        );
      }
    }
  }

  /**
   * All at once: no process of the tree ever holds more than its parent. What is returned waits until the
   * models' inboxes have it and what was open by it is closed.
   */
  async #apply(proc: Process, change: Change, by: Process | undefined): Promise<void> {
    const { table, files } = this.#ports;
    const tree = table.tree(proc).map((member) => ({ member, before: member.permissions }));
    table.setPermissions(proc, change.after);
    const closed = tree.map(({ member }) => files.withdraw(member, change.who));
    for (const { member } of tree) this.#announce(member);
    const told = tree
      .filter(({ member }) => member !== by)
      .map(({ member, before }) => this.#tell(member, change.news(before, member.permissions)));
    await Promise.all([...closed, ...told]);
  }

  /** To the record, and to the tools its model is shown. */
  #announce(proc: Process): void {
    if (!isLive(proc)) return;
    try {
      this.#ports.appendTools(proc);
    } catch (thrown) {
      this.#warn(proc, thrown);
    }
    // The record of one that is being built is written by its spawn.
    if (proc.state === "running") void this.#ports.saveInfo(proc);
  }

  async #tell(proc: Process, news: string): Promise<void> {
    if (news === "" || proc.spec.kind !== "agent" || proc.state !== "running" || proc.stopped) return;
    try {
      await this.#ports.notify(proc, news);
    } catch (thrown) {
      // It ends now: there is nobody to tell.
      if (thrown instanceof SyscallError && thrown.code === "CLOSED") return;
      // An inbox that is full: the change stands, and refusals say what it is.
      this.#warn(proc, thrown);
    }
  }

  #warn(proc: Process, thrown: unknown): void {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    this.#ports.warn(`PID ${proc.pid}`, `telling it of its rights: ${why}`);
  }
}

function isLive(proc: Process): boolean {
  return (proc.state === "created" || proc.state === "running") && !proc.stopped && !proc.ending;
}

function rightsOf(permissions: Permissions): Rights {
  return { allowed: permissions.allowedTools(), denied: permissions.deniedTools() };
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
  return `${listed(gone)} was withdrawn by ${who}: it is refused from now on. Go on without it, or say what you can't do.`;
}

function lessNow(before: Permissions, after: Permissions, pid: PID): string {
  const left = after.allowedTools();
  if (left.join() === before.allowedTools().join()) return "";
  return `PID ${pid}, above you, works by a skill that leaves you less to use: ${left.join(", ") || "nothing"}.`;
}

function listed(rules: readonly Rule[]): string {
  return rules.map(({ text }) => text).join(", ");
}
