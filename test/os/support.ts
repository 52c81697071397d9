import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Children, type ChildrenOptions } from "../../src/os/children.ts";
import type { Child, ExecRequest, ExitInfo, SyscallError } from "../../src/plugin/index.ts";

export const PATH = process.env.PATH ?? "/usr/bin:/bin";

/** A folder of its own, and in it a `sleep` under a name that no other test has. */
export class Bench {
  readonly dir = mkdtempSync(join(tmpdir(), "rnix-os-"));
  readonly ledgerDir = join(this.dir, "ledger");
  readonly spillDir = join(this.dir, "spill");
  /** The name as `ps` shows it; the program is `nap`, with seconds as its argument. */
  readonly name = `nap${crypto.randomUUID().slice(0, 8)}`;
  readonly nap = join(this.dir, this.name);
  readonly kernelId = `kernel-${this.name}`;
  readonly faults: SyscallError[] = [];
  readonly #children: Children[] = [];

  constructor() {
    symlinkSync(Bun.which("sleep") ?? "/bin/sleep", this.nap);
  }

  children(o: Partial<ChildrenOptions> = {}): Children {
    const children = new Children({
      ledgerDir: this.ledgerDir,
      kernelId: this.kernelId,
      // Programs that are to be killed get less: on a busy machine an end by TERM takes seconds.
      graceMs: 60_000,
      memoryBytes: 64 * 1024,
      diskBytes: 16 * 1024 * 1024,
      onFault: (error) => this.faults.push(error),
      ...o,
    });
    this.#children.push(children);
    return children;
  }

  /** A request that runs a shell script, with everything given. */
  sh(script: string, more: Partial<ExecRequest> = {}): ExecRequest {
    return { argv: ["sh", "-c", script], cwd: this.dir, env: { PATH }, life: "call", ...more };
  }

  owner(uuid = "uuid-1", call = "call-1"): { uuid: string; call: string; spillDir: string } {
    return { uuid, call, spillDir: this.spillDir };
  }

  /** The naps of this test that run. One that has its name but no arguments yet has no environment either. */
  naps(): number[] {
    return processesNamed(this.name)
      .filter(({ pid, state }) => state !== "Z" && hasArguments(pid))
      .map(({ pid }) => pid);
  }

  /** Naps that run or were not reaped. */
  traces(): { pid: number; state: string }[] {
    return processesNamed(this.name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const children of this.#children) await children.close();
    for (const pid of this.naps()) process.kill(pid, "SIGKILL");
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export async function output(child: Child): Promise<{ out: string; err: string; exit: ExitInfo }> {
  const decoders = { 1: new TextDecoder(), 2: new TextDecoder() };
  const text = { 1: "", 2: "" };
  for (let piece = await child.read(); piece; piece = await child.read()) {
    text[piece.fd] += decoders[piece.fd].decode(piece.data, { stream: true });
  }
  return { out: text[1], err: text[2], exit: await child.exited() };
}

/** The first line a program prints. */
export async function firstLine(child: Child): Promise<string> {
  let text = "";
  while (!text.includes("\n")) {
    const piece = await child.read();
    if (!piece) break;
    text += new TextDecoder().decode(piece.data);
  }
  return text.trim();
}

/** As in ps(1): R, S, T, Z, …; null when there is no such process. */
export function stateOf(pid: number): string | null {
  return statOf(pid)?.state ?? null;
}

function processesNamed(name: string): { pid: number; state: string }[] {
  return readdirSync("/proc").flatMap((entry) => {
    const stat = Number(entry) > 0 ? statOf(Number(entry)) : null;
    return stat?.name === name ? [{ pid: Number(entry), state: stat.state }] : [];
  });
}

function hasArguments(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1") !== "";
  } catch {
    return false;
  }
}

function statOf(pid: number): { name: string; state: string } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const end = stat.lastIndexOf(")");
    return { name: stat.slice(stat.indexOf("(") + 1, end), state: stat.charAt(end + 2) };
  } catch {
    return null;
  }
}

export async function errorOf(promise: Promise<unknown>): Promise<SyscallError> {
  try {
    await promise;
  } catch (error) {
    return error as SyscallError;
  }
  throw new Error("expected an error, and none came");
}

export function openDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}
