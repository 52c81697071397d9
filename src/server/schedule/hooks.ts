/** The hooks of jobs: a FIFO in the project's data folder, and a local address. */

import { timingSafeEqual } from "node:crypto";
import { closeSync, constants, existsSync, fstatSync, lstatSync, openSync, readSync } from "node:fs";
import { dirname, join } from "node:path";
import { CRON } from "../../cron/cron-folder.ts";
import type { EventSource, JobEvents } from "../../cron/ports.ts";
import type { JobProject } from "../../cron/project-list.ts";
import type { Timer } from "../../lib/clock.ts";
import { errnoOf, messageOf } from "../../lib/error-detail.ts";
import { type ProgramPorts, runShortProgram } from "../../os/short-program.ts";
import { type HookAddress, SyscallError } from "../../plugin/index.ts";
import { requireNoLink } from "../../store/files/data-dir.ts";
import { makeFolder, readDocument, replaceDocument } from "../../store/files/document.ts";
import { realFs, removeLeftover } from "../../store/files/fs-port.ts";

interface HooksPorts extends ProgramPorts {
  /** Where the address is remembered, so that it stays the same. */
  portFile: string;
  /** The secret of a subject, the same each time. */
  secretOf(subject: string): string;
  warn(text: string): void;
}

interface OpenHook {
  secret: string;
  events: JobEvents;
  project: JobProject;
  jobId: string;
}

const MAX_BODY = 256 * 1024;
/** Headers with which services name a delivery. */
const ID_HEADERS = [
  "x-delivery-id",
  "idempotency-key",
  "webhook-id",
  "x-github-delivery",
  "x-gitlab-event-uuid",
];

/** Serves the hooks of all projects. The address listens on 127.0.0.1 while a job has a hook. */
export class Hooks {
  readonly #ports: HooksPorts;
  readonly #open = new Map<string, OpenHook>();
  #server: ReturnType<typeof Bun.serve> | undefined;

  constructor(ports: HooksPorts) {
    this.#ports = ports;
  }

  open(jobId: string, name: string, project: JobProject, events: JobEvents): EventSource {
    const path = pathOf(project, name);
    const hook: OpenHook = { secret: this.#ports.secretOf(path), events, project, jobId };
    this.#open.set(path, hook);
    this.#serve().catch((thrown: unknown) => this.#ports.warn(`no address for hooks: ${messageOf(thrown)}`));
    const fifo = new Fifo(project.dataDir, fifoOf(project, name), this.#ports, (line) =>
      this.#accept(hook, new TextEncoder().encode(line), crypto.randomUUID()),
    );
    return {
      close: () => {
        fifo.close();
        if (this.#open.get(path) === hook) this.#open.delete(path);
        if (this.#open.size === 0) this.#stop();
      },
    };
  }

  addressOf(project: JobProject, name: string): HookAddress {
    const path = pathOf(project, name);
    const port = this.#server?.port;
    return {
      fifo: fifoOf(project, name),
      url: port === undefined ? null : `http://127.0.0.1:${port}${path}`,
      secret: this.#ports.secretOf(path),
    };
  }

  close(): void {
    this.#open.clear();
    this.#stop();
  }

  #stop(): void {
    void this.#server?.stop(true);
    this.#server = undefined;
  }

  async #serve(): Promise<void> {
    if (this.#server) return;
    const serve = (port: number) =>
      Bun.serve({
        hostname: "127.0.0.1",
        port,
        maxRequestBodySize: MAX_BODY,
        idleTimeout: 30,
        fetch: (request) => this.#answer(request),
      });
    const known = Number((await readDocument(this.#ports.portFile))?.text ?? 0) || 0;
    if (this.#server || this.#open.size === 0) return;
    try {
      this.#server = serve(known);
    } catch (thrown) {
      if (known === 0) throw thrown;
      // Another program uses the port now, so the server takes a free one.
      this.#server = serve(0);
    }
    if (this.#server.port !== known) {
      makeFolder(dirname(this.#ports.portFile));
      await replaceDocument(this.#ports.portFile, `${this.#server.port}\n`);
    }
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const hook = this.#open.get(pathname);
    const given = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    // Unknown hooks and wrong secrets look the same.
    if (!hook || !isSame(given, hook.secret))
      return Response.json({ error: "unknown hook or wrong secret" }, { status: 401 });
    if (request.method !== "POST") return Response.json({ error: "expected POST" }, { status: 405 });
    const body = new Uint8Array(await request.arrayBuffer());
    if (body.length > MAX_BODY)
      return Response.json({ error: `expected at most ${MAX_BODY} bytes` }, { status: 413 });
    const id =
      ID_HEADERS.map((name) => request.headers.get(name)).find((value) => value) ?? crypto.randomUUID();
    try {
      const isNew = await this.#accept(hook, body, id.slice(0, 200));
      return Response.json({ accepted: isNew, duplicate: !isNew, id }, { status: isNew ? 202 : 200 });
    } catch (thrown) {
      const [status, seconds] = isCode(thrown, "EXHAUSTED") ? [429, "60"] : [503, "5"];
      return Response.json({ error: messageOf(thrown) }, { status, headers: { "retry-after": seconds } });
    }
  }

  /** The body and the row are durable when this returns. */
  async #accept({ events, project, jobId }: OpenHook, body: Uint8Array, id: string): Promise<boolean> {
    const name = Bun.hash(`${jobId} ${id}`).toString(36);
    const file = `${CRON}/hooks/${name}.body`;
    const path = join(project.dataDir, file);
    makeHooksFolder(project.dataDir);
    // The body of an earlier delivery with this id counts, until its run has it.
    const isWaiting = existsSync(path);
    if (!isWaiting) await replaceDocument(path, new TextDecoder().decode(body));
    let isKept = isWaiting;
    try {
      const isNew = await events.accept({ cause: `hook ${id}`, body: file });
      // If not, a run has had the earlier one already.
      isKept ||= isNew;
      return isNew;
    } catch (thrown) {
      // After a fault of the disk the row may be there.
      isKept ||= !isCode(thrown, "EXHAUSTED") && !isCode(thrown, "UNAVAILABLE");
      throw thrown;
    } finally {
      if (!isKept) removeLeftover(realFs, path);
    }
  }
}

function fifoOf({ dataDir }: JobProject, name: string): string {
  return join(dataDir, CRON, "hooks", `${name}.fifo`);
}

function isCode(thrown: unknown, code: SyscallError["code"]): boolean {
  return thrown instanceof SyscallError && thrown.code === code;
}

/** The address tells nothing of the project. */
function pathOf({ dataDir }: JobProject, name: string): string {
  return `/hooks/${Bun.hash(dataDir).toString(36)}/${name}`;
}

/** Takes as long for any wrong secret. */
function isSame(given: string, secret: string): boolean {
  return timingSafeEqual(Bun.CryptoHasher.hash("sha256", given), Bun.CryptoHasher.hash("sha256", secret));
}

const MAX_LINE = 64 * 1024;
/** How often a FIFO is read. A blocking read would hold a thread. */
const FIFO_MS = 300;
/** The wait after a fault of a FIFO. */
const RETRY_MS = 3000;
const MKFIFO_MS = 10_000;

interface FifoPorts extends ProgramPorts {
  warn(text: string): void;
}

/** Reads lines of a FIFO without ever waiting in a system call. One that was removed is replaced by a new one. */
class Fifo {
  readonly #dataDir: string;
  readonly #path: string;
  readonly #ports: FifoPorts;
  readonly #line: (text: string) => Promise<unknown>;
  #fd: number | undefined;
  #timer: Timer | undefined;
  #text = "";
  #pending: string[] = [];
  #closed = false;
  /** The last fault: it is reported once. */
  #warned = "";
  readonly #decoder = new TextDecoder();

  constructor(dataDir: string, path: string, ports: FifoPorts, line: (text: string) => Promise<unknown>) {
    this.#dataDir = dataDir;
    this.#path = path;
    this.#ports = ports;
    this.#line = line;
    void this.#read();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#release();
  }

  #release(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  async #open(): Promise<void> {
    const folder = dirname(this.#path);
    makeHooksFolder(this.#dataDir);
    if (!lstatSync(this.#path, { throwIfNoEntry: false })) {
      const argv = ["mkfifo", "-m", "600", this.#path];
      const program = { argv, cwd: folder, env: {}, timeoutMs: MKFIFO_MS, maxChars: 0 };
      await runShortProgram(this.#ports, "cron", program);
    }
    if (this.#closed) return;
    if (!lstatSync(this.#path).isFIFO())
      throw new SyscallError("INVALID", "expected a FIFO. Remove what is there.");
    // Open for writing too: else it ends with its first writer.
    this.#fd = openSync(this.#path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  }

  /** The path leads to the FIFO that is open. */
  #isThere(): boolean {
    if (this.#fd === undefined) return false;
    return lstatSync(this.#path, { throwIfNoEntry: false })?.ino === fstatSync(this.#fd).ino;
  }

  async #read(): Promise<void> {
    let wait = FIFO_MS;
    try {
      if (this.#pending.length === 0) this.#pending = this.#lines();
      for (let [line] = this.#pending; line !== undefined && !this.#closed; [line] = this.#pending) {
        if (line.trim() !== "") await this.#line(line);
        this.#pending.shift();
      }
      if (!this.#closed && !this.#isThere()) {
        this.#release();
        await this.#open();
      }
      this.#warned = "";
    } catch (thrown) {
      const text = `${this.#path}: ${String(thrown)}`;
      if (text !== this.#warned) this.#ports.warn(text);
      this.#warned = text;
      wait = RETRY_MS;
    }
    if (!this.#closed) this.#timer = this.#ports.clock.timer(wait, () => void this.#read());
  }

  #lines(): string[] {
    const bytes = new Uint8Array(MAX_LINE);
    if (this.#fd === undefined) return [];
    let got = 0;
    try {
      got = readSync(this.#fd, bytes);
    } catch (error) {
      if (errnoOf(error) !== "EAGAIN") throw error;
    }
    if (got === 0) return [];
    this.#text += this.#decoder.decode(bytes.subarray(0, got), { stream: true });
    const parts = this.#text.split("\n");
    const rest = parts.pop() ?? "";
    this.#text = rest.slice(0, MAX_LINE);
    return parts;
  }
}

/** A project may have brought the folder as a link to elsewhere: then it fails. */
function makeHooksFolder(dataDir: string): void {
  requireNoLink(dataDir, [CRON, "hooks"]);
  makeFolder(join(dataDir, CRON, "hooks"));
}
