/** Runs the commands that print API keys. */

import { join } from "node:path";
import { toolEnvironment } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { digestText } from "../../config/files/file.ts";
import type { KeyCommands, KeySource } from "../../config/providers/provider-choice.ts";
import type { KeyCommand } from "../../config/providers/providers.ts";
import type { Secrets } from "../../kernel/process/secrets.ts";
import { type ProgramPorts, runShortProgram, shell } from "../../os/short-program.ts";
import { SyscallError } from "../../plugin/index.ts";
import { FileLock } from "../../store/files/file-lock.ts";

interface KeyCommandPorts extends ProgramPorts {
  /** Gets every key that a command prints. */
  fetched: Secrets;
  /** Absolute. Holds the lock of each running command, so that other kernels wait for it. */
  lockDir: string;
}

/** The deadline of a command: the user may have to unlock a password store first. */
const COMMAND_MS = 60_000;
/** How long a printed key is used; a key that a provider rejects is fetched again earlier. */
const KEEP_MS = 5 * 60_000;
/** Maximum cached keys, by command and environment. */
const MAX_KEPT = 256;
const MAX_OUTPUT = 64 * 1024;
const SHOWN = 200;

/**
 * Runs `api_key_command`s for all runs of the server (design §2, "Environment"): one at a time for the same command,
 * folder and environment, whose key all of them share. Keys are in memory alone.
 */
export class CommandKeys implements KeyCommands {
  readonly #ports: KeyCommandPorts;
  readonly #sources = new Map<string, CommandKey>();

  constructor(ports: KeyCommandPorts) {
    this.#ports = ports;
  }

  get fetched(): readonly string[] {
    return this.#ports.fetched.keys;
  }

  of(command: KeyCommand, env: Env, secrets: readonly string[]): KeySource {
    const given = Object.entries(toolEnvironment(env, secrets)).filter(([name]) => !isOfTerminal(name));
    const own = Object.fromEntries(given.toSorted(([a], [b]) => (a < b ? -1 : 1)));
    const id = digestText(JSON.stringify([command.command, command.cwd, own]));
    const known = this.#sources.get(id) ?? new CommandKey(id, command, own, this.#ports);
    // Moves the entry to the end: the least recently used is dropped first.
    this.#sources.delete(id);
    this.#sources.set(id, known);
    const [oldest] = this.#sources.keys();
    if (this.#sources.size > MAX_KEPT && oldest !== undefined) this.#sources.delete(oldest);
    return known;
  }
}

class CommandKey implements KeySource {
  readonly id: string;
  readonly #command: KeyCommand;
  readonly #env: Record<string, string>;
  readonly #ports: KeyCommandPorts;
  #memo: { key: string; untilMs: number } | undefined;
  #running: Promise<string> | undefined;

  constructor(id: string, command: KeyCommand, env: Record<string, string>, ports: KeyCommandPorts) {
    this.id = id;
    this.#command = command;
    this.#env = env;
    this.#ports = ports;
  }

  async key(): Promise<string> {
    const memo = this.#memo;
    if (memo && memo.untilMs > this.#ports.clock.monotonic()) return memo.key;
    return this.#fetch();
  }

  async renew(refused: string): Promise<boolean> {
    // Another run was rejected before and has fetched a new key.
    if (this.#memo && this.#memo.key !== refused) return true;
    return (await this.#fetch()) !== refused;
  }

  /** Callers that come while the command runs wait for the same result. */
  #fetch(): Promise<string> {
    this.#running ??= this.#alone().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Two commands that renew one credential at the same time would invalidate each other's. */
  async #alone(): Promise<string> {
    const { lockDir, clock } = this.#ports;
    const lock = await FileLock.acquire(join(lockDir, this.id.slice(7, 39)), 2 * COMMAND_MS, clock);
    try {
      return await this.#run();
    } finally {
      lock.release({ remove: true });
    }
  }

  async #run(): Promise<string> {
    this.#memo = undefined;
    const { command, cwd } = this.#command;
    const { code, signal, timedOut, stdout, stderr, isCut } = await runShortProgram(
      this.#ports,
      "api-key-command",
      {
        ...{ argv: shell(command), cwd, env: this.#env },
        ...{ timeoutMs: COMMAND_MS, maxChars: MAX_OUTPUT, endsAtMax: true },
      },
    );
    const key = stdout.trim();
    if (isCut) throw this.#failed(`printed more than ${MAX_OUTPUT} characters: expected one line, the key`);
    if (timedOut) throw this.#failed(`did not finish within ${COMMAND_MS / 1000} s`);
    if (code !== 0) {
      const how = code === null ? `was ended by ${signal}` : `ended with ${code}`;
      throw this.#failed(`${how}${said(stderr, key)}`);
    }
    if (key === "") throw this.#failed(`printed nothing${said(stderr, key)}`);
    if (!/^[\x21-\x7e]+$/.test(key))
      throw this.#failed("printed something that is not a key: expected one line without spaces");
    this.#ports.fetched.add(key);
    this.#memo = { key, untilMs: this.#ports.clock.monotonic() + KEEP_MS };
    return key;
  }

  #failed(what: string): SyscallError {
    const { file, cwd } = this.#command;
    return new SyscallError("UNAVAILABLE", `The api_key_command of ${file}, run in ${cwd}, ${what}`, {
      retryable: false,
    });
  }
}

/** Variables that differ between terminals of one user and do not select a key. */
function isOfTerminal(name: string): boolean {
  return (
    ["_", "SHLVL", "PWD", "OLDPWD", "WINDOWID", "COLUMNS", "LINES", "STY"].includes(name) ||
    /^(?:TERM|TMUX|RNIX_|VTE_|KONSOLE_|ITERM_|VSCODE_)/.test(name)
  );
}

/** The last line of its error output, without the key it printed. */
function said(stderr: string, key: string): string {
  const last = stderr.trim().split("\n").at(-1)?.trim() ?? "";
  const clean = key === "" ? last : last.replaceAll(key, "…");
  return clean === "" ? "" : `: ${clean.slice(0, SHOWN)}`;
}
