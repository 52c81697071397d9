/** The syscalls Open, Read, Write, Close and Stat. */

import { type Cancellation, signalOf, withDeadline, withGrace, withTimeout } from "../lib/clock.ts";
import { messageOf, withDetail } from "../lib/error-detail.ts";
import { taintingDevice } from "../lib/taint.ts";
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
import type { DeviceEntry, OpenFile } from "../vfs/namespace.ts";
import type { Asks } from "./asks/asks.ts";
import { FileGrants, RedactingFile } from "./files/file-grants.ts";
import type { OpenContexts } from "./files/open-context.ts";
import type { Asked } from "./permission/ask-rules.ts";
import type { FileGrant, OpenAs } from "./permission/file-grant.ts";
import type { Process } from "./process/process.ts";
import type { Core } from "./tiers/core.ts";

/**
 * Additional time after an abort. A driver has the grace of a program between TERM and KILL, and this time to clean up,
 * before its call is abandoned.
 */
const AFTER_GRACE_MS = 2_000;

/** Maximum characters of a device path, as on Linux (PATH_MAX). */
const MAX_PATH = 4096;
/** Maximum characters of a path in a message. */
const QUOTED = 200;

type FileSystemParts = Pick<Core, "debug" | "clock" | "taint"> & {
  openContexts: OpenContexts;
  asks: Pick<Asks, "require">;
};

/**
 * For every device it checks permissions, records events, enforces deadlines, and makes only one call of
 * a file at a time.
 */
export class FileSystem {
  readonly #parts: FileSystemParts;
  readonly #grants = new FileGrants();
  readonly #busy = new WeakSet<VFSFile>();

  constructor(parts: FileSystemParts) {
    this.#parts = parts;
  }

  /** CapCheck is part of every Open. The call's deadline applies through `signal`. */
  open(
    proc: Process,
    path: string,
    flags: OpenFlag,
    as: OpenAs = { kind: "process" },
    signal: Cancellation = proc.cancellation,
  ): Promise<number> {
    const args: Record<string, unknown> =
      as.kind === "tool" ? { path, flags, tool: as.tool } : { path, flags };
    return this.#parts.debug.call(proc, "Open", args, async () => {
      checkPath(path);
      const grant = this.#grants.check(proc, path, as, flags === O_RDONLY);
      if (grant) args.rule = grant.rule;
      try {
        const { entry, subpath } = proc.spec.namespace.resolve(path);
        // The call of a tool taints when it has read.
        if (as.kind === "process") this.#taint(proc, entry, path);
        const asked = grant && proc.permissions.asks(grant.call);
        if (grant && asked) args.asked = await this.#requireAnswer(proc, grant, asked, signalOf(signal));
        const context = this.#parts.openContexts.make(
          proc,
          entry,
          as,
          this.#access(proc, grant, signal),
          signal,
        );
        const open = (until: Cancellation) =>
          this.#openFile(proc, entry, () => opened(proc, entry, subpath, flags, context), until);
        const file = await (grant ? grant.run(signalOf(signal), open) : open(signal));
        if (grant?.withdrawn) {
          await this.#closeFile(proc, { file, plugin: entry.plugin, device: entry.path });
          throw grant.withdrawn;
        }
        const fd = proc.fds.add({ file, path, device: entry.path, plugin: entry.plugin, flags, grant });
        if (grant) grant.fd = fd;
        return fd;
      } catch (thrown) {
        grant?.end();
        throw thrown;
      }
    });
  }

  /** A file of a plugin whose tools read text of others may hold such text, too. */
  #taint(proc: Process, { plugin }: DeviceEntry, path: string): void {
    const tools = proc.spec.namespace.entries().filter((entry) => entry.plugin === plugin);
    const found = tools.flatMap(({ device }) => device.tools ?? []).find(({ origin }) => origin);
    if (found?.origin) this.#parts.taint(proc, found.origin, path, taintingDevice(path));
  }

  /** Returns at most `length` bytes (UTF-16 units of text); empty at the end. */
  read(proc: Process, fd: number, length: number, signal: AbortSignal = proc.signal): Promise<Data> {
    const read = () => this.readQuietly(proc, fd, length, signal);
    return this.#parts.debug.call(proc, "Read", { fd, length }, read, (data) => data.length);
  }

  /**
   * Reads without an event. The caller records the pieces of one model answer as one Read with their count, so that a
   * long answer does not fill the trace.
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
    return this.#parts.debug.call(proc, "Write", { fd, size: data.length }, async () => {
      const open = proc.fds.get(fd);
      if (open.flags === O_RDONLY) {
        throw new SyscallError("PERMISSION", `FD ${fd} (${open.path}) is open for reading only.`);
      }
      await this.#operate(proc, open, signal, (until) => open.file.write(data, until));
    });
  }

  close(proc: Process, fd: number): Promise<void> {
    return this.#parts.debug.call(proc, "Close", { fd }, async () => {
      const open = proc.fds.take(fd);
      try {
        await this.#closeFile(proc, open);
      } finally {
        open.grant?.end();
      }
    });
  }

  stat(proc: Process, path: string): Promise<FileStat> {
    return this.#parts.debug.call(
      proc,
      "Stat",
      { path },
      async () => {
        checkPath(path);
        const grant = this.#grants.check(proc, path, { kind: "process" }, true);
        grant?.end();
        const { entry, subpath } = proc.spec.namespace.resolve(path);
        const access = this.#access(proc, grant, proc.signal);
        const context = this.#parts.openContexts.make(proc, entry, { kind: "process" }, access, proc.signal);
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

  /** Returns the driver's description of an open file. This is no syscall. */
  async facts(proc: Process, fd: number): Promise<FileStat> {
    const open = proc.fds.get(fd);
    return this.#inTime(proc, open, (signal) => this.#statOf(open, signal));
  }

  /** Returns the function by which a driver asks for files that it opens under this grant. */
  #access(proc: Process, grant: FileGrant | undefined, signal: Cancellation): OpenContext["access"] {
    return (paths, also = []) =>
      this.#grants.access(proc, grant, paths, also, (covering, asked, opened) =>
        this.#parts.asks.require(proc, covering, asked, opened, signalOf(signal)),
      );
  }

  /** Asks a person about the call, if it can be allowed at all. Returns the verdict for the trace. */
  async #requireAnswer(proc: Process, grant: FileGrant, asked: Asked, signal: AbortSignal): Promise<string> {
    const { call } = grant;
    const why = proc.permissions.impossible(call, this.#parts.openContexts.guarded(proc));
    if (why !== null) throw new SyscallError("PERMISSION", why, { device: call.path });
    const { verdict, by } = await this.#parts.asks.require(proc, grant, asked, undefined, signal);
    if (grant.withdrawn) throw grant.withdrawn;
    return `${verdict} by ${by}`;
  }

  #statOf({ file, plugin, device }: OpenDevice, signal: AbortSignal): Promise<FileStat> {
    return withGrace(
      driver(plugin, device, () => file.stat()),
      signal,
      this.#parts.clock,
      0,
    );
  }

  /** A question to a driver outside a call has the deadline of a call. */
  #inTime<T>(
    proc: Process,
    { plugin, device }: Omit<OpenDevice, "file">,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const ms = proc.spec.opts.limits.tool_timeout;
    const late = `Plugin ${plugin} did not describe ${device} within ${ms} ms.`;
    return withDeadline(proc.clock, proc.signal, ms, late, run);
  }

  /** Closes all open files when a process ends. */
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
    const withdrawn = this.#grants.withdraw(proc, by);
    const raw = withdrawn.filter(({ call }) => call.tool === null);
    // Its errors are in the trace and undo nothing.
    await Promise.allSettled(raw.map((grant) => this.#closeWithdrawn(proc, grant)));
    return withdrawn.length;
  }

  async #closeWithdrawn(proc: Process, grant: FileGrant): Promise<void> {
    await grant.idle;
    if (grant.fd !== undefined && proc.fds.has(grant.fd)) await this.close(proc, grant.fd);
  }

  /** Opens a file by the device's factory. A file that is returned after the deadline is closed. */
  async #openFile(
    proc: Process,
    { plugin, path }: DeviceEntry,
    factory: () => VFSFile | Promise<VFSFile>,
    signal: Cancellation,
  ): Promise<VFSFile> {
    const opening = driver(plugin, path, async () => factory());
    return withGrace(opening, signal, this.#parts.clock, patience(proc)).catch((thrown) => {
      // A file that the factory returns after the deadline must be closed here.
      opening.then(
        (late) => late.close(),
        () => undefined,
      );
      throw thrown;
    });
  }

  async #closeFile(proc: Process, { file, plugin, device }: OpenDevice): Promise<void> {
    const closed = driver(plugin, device, () => file.close());
    if (await withTimeout(this.#parts.clock, patience(proc), closed)) return;
    throw new SyscallError("TIMEOUT", `Plugin ${plugin} did not close ${device} in time.`);
  }

  /** Runs one operation on an open file, under its grant. Fails with INVALID while another one runs. */
  #operate<T>(
    proc: Process,
    { file, plugin, device, grant }: OpenFile<FileGrant>,
    signal: AbortSignal,
    operation: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const run = async (until: AbortSignal): Promise<T> => {
      // After a stop nothing new begins. At a deadline, data that has arrived is still read.
      proc.signal.throwIfAborted();
      const work = driver(plugin, device, () => operation(until));
      return await withGrace(work, until, this.#parts.clock, patience(proc));
    };
    return this.#exclusive(file, () => (grant ? grant.run(signal, run) : run(signal)));
  }

  async #exclusive<T>(file: VFSFile, run: () => Promise<T>): Promise<T> {
    if (this.#busy.has(file)) {
      const message = "The file is busy with another call. One file serves one call at a time.";
      throw new SyscallError("INVALID", message);
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

/** A file with a key redacts it. */
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

/** Turns an error that is no SyscallError into DRIVER with the plugin's name. */
async function driver<T>(plugin: string, device: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (thrown) {
    if (thrown instanceof SyscallError) {
      if (thrown.device !== undefined) throw thrown;
      throw withDetail(thrown, { device });
    }
    throw new SyscallError("DRIVER", `Plugin ${plugin}, ${device}: ${messageOf(thrown)}`, {
      cause: thrown,
      device,
    });
  }
}

function checkPath(path: string): void {
  const wrong = !path.startsWith("/") || path.includes("\0") || path.length > MAX_PATH;
  if (wrong) {
    const message = `Expected an absolute device path like /dev/fs/README.md, got ${JSON.stringify(path.slice(0, QUOTED))}.`;
    throw new SyscallError("INVALID", message);
  }
}

function patience(proc: Process): number {
  return proc.spec.opts.limits.grace + AFTER_GRACE_MS;
}
