import { withDeadline, withGrace } from "../lib/cancellation.ts";
import type { Clock } from "../lib/clock.ts";
import { withDetail } from "../lib/error-detail.ts";
import {
  type Data,
  type FileStat,
  O_RDONLY,
  O_WRONLY,
  type OpenContext,
  type OpenFlag,
  SyscallError,
  type VFSFile,
} from "../plugin/index.ts";
import type { OpenFile } from "../vfs/fd-table.ts";
import type { DeviceEntry } from "../vfs/registry.ts";
import type { Debugger } from "./debugger.ts";
import { FileGrants } from "./files/file-grants.ts";
import type { OpenContexts } from "./files/open-context.ts";
import { RedactingFile } from "./files/redacting-file.ts";
import type { FileGrant, OpenAs } from "./permission/file-grant.ts";
import type { Process } from "./process/process.ts";

/**
 * After an abort a driver has the grace that a program gets between TERM and KILL, and so much more to clean
 * up behind it, before it is given up.
 */
const AFTER_GRACE_MS = 2_000;

/** Characters of a device path: as many as Linux takes (PATH_MAX). */
const MAX_PATH = 4096;
/** Characters of a path that a message quotes. */
const QUOTED = 200;

/**
 * Open, Read, Write, Close, Stat (seeds 1.4). Permission, tracing, deadlines and the rule that a driver
 * never sees two calls at once stand here, once for every device.
 */
export class FileSystem {
  readonly #debug: Debugger;
  readonly #contexts: OpenContexts;
  readonly #clock: Clock;
  readonly #rights = new FileGrants();
  readonly #busy = new WeakSet<VFSFile>();

  constructor(parts: { debug: Debugger; contexts: OpenContexts; clock: Clock }) {
    this.#debug = parts.debug;
    this.#contexts = parts.contexts;
    this.#clock = parts.clock;
  }

  /** CapCheck is part of every Open. Opening takes part in the call's deadline through `signal`. */
  open(
    proc: Process,
    path: string,
    flags: OpenFlag,
    as: OpenAs = { kind: "process" },
    signal: AbortSignal = proc.signal,
  ): Promise<number> {
    const args: Record<string, unknown> =
      as.kind === "tool" ? { path, flags, tool: as.tool } : { path, flags };
    return this.#debug.call(
      proc,
      "Open",
      args,
      async () => {
        checkPath(path);
        const right = this.#rights.check(proc, path, as, flags === O_RDONLY);
        if (right) args.rule = right.rule;
        try {
          const { entry, subpath } = proc.spec.namespace.resolve(path);
          const context = this.#contexts.make(proc, entry, as, this.#access(proc, right));
          const open = (until: AbortSignal) =>
            this.#openFile(proc, entry, () => opened(proc, entry, subpath, flags, context), until);
          const file = await (right ? right.run(signal, open) : open(signal));
          if (right?.withdrawn) {
            await this.#closeFile(proc, { file, plugin: entry.plugin, device: entry.path });
            throw right.withdrawn;
          }
          const fd = proc.fds.add({ file, path, device: entry.path, plugin: entry.plugin, flags, right });
          if (right) right.fd = fd;
          return fd;
        } catch (thrown) {
          right?.end();
          throw thrown;
        }
      },
      (fd) => fd,
    );
  }

  /** At most `length` bytes (UTF-16 units of text); empty is the end. */
  read(proc: Process, fd: number, length: number, signal: AbortSignal = proc.signal): Promise<Data> {
    return this.#debug.call(
      proc,
      "Read",
      { fd, length },
      () => this.readQuietly(proc, fd, length, signal),
      (data) => data.length,
    );
  }

  /**
   * A read that leaves no event of its own: the pieces of one model answer are recorded by the caller as
   * one Read with their count, or a long answer would drown the trace.
   */
  async readQuietly(
    proc: Process,
    fd: number,
    length: number,
    signal: AbortSignal = proc.signal,
  ): Promise<Data> {
    const open = proc.fds.get(fd);
    if (open.flags === O_WRONLY)
      throw new SyscallError("PERMISSION", `FD ${fd} (${open.path}) is open for writing only.`);
    return this.#operate(proc, open, signal, (until) => open.file.read(length, until));
  }

  write(proc: Process, fd: number, data: Data, signal: AbortSignal = proc.signal): Promise<void> {
    return this.#debug.call(proc, "Write", { fd, size: data.length }, async () => {
      const open = proc.fds.get(fd);
      if (open.flags === O_RDONLY) {
        throw new SyscallError("PERMISSION", `FD ${fd} (${open.path}) is open for reading only.`);
      }
      await this.#operate(proc, open, signal, (until) => open.file.write(data, until));
    });
  }

  close(proc: Process, fd: number): Promise<void> {
    return this.#debug.call(proc, "Close", { fd }, async () => {
      const open = proc.fds.take(fd);
      try {
        await this.#closeFile(proc, open);
      } finally {
        open.right?.end();
      }
    });
  }

  stat(proc: Process, path: string): Promise<FileStat> {
    return this.#debug.call(
      proc,
      "Stat",
      { path },
      async () => {
        checkPath(path);
        const right = this.#rights.check(proc, path, { kind: "process" }, true);
        right?.end();
        const { entry, subpath } = proc.spec.namespace.resolve(path);
        const context = this.#contexts.make(proc, entry, { kind: "process" }, this.#access(proc, right));
        const device = { plugin: entry.plugin, device: entry.path };
        return await this.#inTime(proc, device, async (signal) => {
          const open = () => opened(proc, entry, subpath, O_RDONLY, context);
          const file = await this.#openFile(proc, entry, open, signal);
          try {
            return await this.#statOf({ file, ...device }, signal);
          } finally {
            await this.#closeFile(proc, { file, ...device });
          }
        });
      },
      (stat) => ({ size: stat.size, isDevice: stat.isDevice }),
    );
  }

  /** What the driver of an open file says of it. A look, not a syscall. */
  async facts(proc: Process, fd: number): Promise<FileStat> {
    const open = proc.fds.get(fd);
    return this.#inTime(proc, open, (signal) => this.#statOf(open, signal));
  }

  /** What a driver asks for the files that it opens by this right. */
  #access(proc: Process, right: FileGrant | undefined): OpenContext["access"] {
    return async (paths, also = []) => this.#rights.access(proc, right, paths, also);
  }

  #statOf({ file, plugin, device }: OpenDevice, signal: AbortSignal): Promise<FileStat> {
    return withGrace(
      driver(plugin, device, () => file.stat()),
      signal,
      this.#clock,
      0,
    );
  }

  /** What a driver is asked beside a call has the time that a call has. */
  async #inTime<T>(
    proc: Process,
    { plugin, device }: Omit<OpenDevice, "file">,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const ms = proc.spec.opts.limits.tool_timeout;
    const late = `Plugin ${plugin} did not describe ${device} within ${ms} ms.`;
    const deadline = withDeadline(proc.clock, proc.signal, ms, late);
    try {
      return await run(deadline.signal);
    } finally {
      deadline.release();
    }
  }

  /** Closes whatever is still open, as a process's end does (seeds 2.17). */
  async closeAll(proc: Process): Promise<void> {
    const failures: unknown[] = [];
    for (const { fd } of proc.fds.list()) {
      await this.close(proc, fd).catch((thrown) => failures.push(thrown));
    }
    if (failures.length > 0) throw failures[0];
  }

  /**
   * Withdraws files that a process's reduced rights no longer cover: their operations fail with PERMISSION. Files that
   * the process opened itself are closed; the file of a tool call closes with its call. Returns the number of files.
   */
  async withdraw(proc: Process, by: string): Promise<number> {
    const withdrawn = this.#rights.withdraw(proc, by);
    const raw = withdrawn.filter(({ call }) => call.tool === null);
    // What goes wrong in it is in the trace, and takes nothing back.
    await Promise.allSettled(raw.map((right) => this.#closeWithdrawn(proc, right)));
    return withdrawn.length;
  }

  async #closeWithdrawn(proc: Process, right: FileGrant): Promise<void> {
    await right.idle;
    if (right.fd !== undefined && proc.fds.has(right.fd)) await this.close(proc, right.fd);
  }

  /** Has the device's factory open a file; one that comes too late is closed. */
  async #openFile(
    proc: Process,
    { plugin, path }: DeviceEntry,
    factory: () => VFSFile | Promise<VFSFile>,
    signal: AbortSignal,
  ): Promise<VFSFile> {
    const opening = driver(plugin, path, async () => factory());
    return withGrace(opening, signal, this.#clock, patience(proc)).catch((thrown) => {
      // A file that the factory returns after the deadline must be closed here.
      opening.then(
        (late) => late.close(),
        () => undefined,
      );
      throw thrown;
    });
  }

  async #closeFile(proc: Process, { file, plugin, device }: OpenDevice): Promise<void> {
    const giveUp = new AbortController();
    const timer = this.#clock.timer(patience(proc), () =>
      giveUp.abort(new SyscallError("TIMEOUT", `Plugin ${plugin} did not close ${device} in time.`)),
    );
    try {
      await withGrace(
        driver(plugin, device, () => file.close()),
        giveUp.signal,
        this.#clock,
        0,
      );
    } finally {
      timer.cancel();
    }
  }

  /** One operation on an open file: alone on it, and under its right. */
  #operate<T>(
    proc: Process,
    { file, plugin, device, right }: OpenFile<FileGrant>,
    signal: AbortSignal,
    operation: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const run = async (until: AbortSignal): Promise<T> => {
      // After a stop nothing new begins. At a deadline, data that has arrived is still read.
      proc.signal.throwIfAborted();
      const work = driver(plugin, device, () => operation(until));
      return await withGrace(work, until, this.#clock, patience(proc));
    };
    return this.#exclusive(file, () => (right ? right.run(signal, run) : run(signal)));
  }

  async #exclusive<T>(file: VFSFile, run: () => Promise<T>): Promise<T> {
    if (this.#busy.has(file)) {
      throw new SyscallError(
        "INVALID",
        "The file is busy with another call. One file serves one call at a time.",
      );
    }
    this.#busy.add(file);
    try {
      return await run();
    } finally {
      this.#busy.delete(file);
    }
  }
}

type OpenDevice = Pick<OpenFile<FileGrant>, "file" | "plugin" | "device">;

/** What has a key does not show it. */
async function opened(
  { secrets }: Process,
  { device, needs }: DeviceEntry,
  subpath: string,
  flags: OpenFlag,
  context: OpenContext,
): Promise<VFSFile> {
  if (!needs.includes("secret")) return device.factory(subpath, flags, context);
  try {
    return new RedactingFile(await device.factory(subpath, flags, context), secrets);
  } catch (thrown) {
    throw secrets.hideIn(thrown);
  }
}

/** A driver throws SyscallErrors; whatever else it throws is recorded as DRIVER with its plugin's name. */
async function driver<T>(plugin: string, device: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (thrown) {
    if (thrown instanceof SyscallError) {
      if (thrown.device !== undefined) throw thrown;
      throw withDetail(thrown, { device });
    }
    const text = thrown instanceof Error ? thrown.message : String(thrown);
    throw new SyscallError("DRIVER", `Plugin ${plugin}, ${device}: ${text}`, { cause: thrown, device });
  }
}

function checkPath(path: string): void {
  const wrong = !path.startsWith("/") || path.includes("\0") || path.length > MAX_PATH;
  if (wrong) {
    throw new SyscallError(
      "INVALID",
      `Expected an absolute device path like /dev/fs/README.md, got ${JSON.stringify(path.slice(0, QUOTED))}.`,
    );
  }
}

function patience(proc: Process): number {
  return proc.spec.opts.limits.grace + AFTER_GRACE_MS;
}
