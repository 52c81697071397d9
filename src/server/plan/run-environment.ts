/** What the tools of a run get of an environment, and which values they must not see. */

import { join } from "node:path";
import { namedKeys, providerKeys, toolEnvironment } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { digestText, readText } from "../../config/files/file.ts";
import type { KeyCommands, KeySource } from "../../config/providers/provider-choice.ts";
import { keyNames } from "../../config/providers/provider-needs.ts";
import type { KeyCommand, Providers } from "../../config/providers/providers.ts";
import type { Settings } from "../../config/settings/settings.ts";
import type { Secrets } from "../../kernel/process/secrets.ts";
import { BoundedMap, LastEqual } from "../../lib/caches.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { type ProgramPorts, runShortProgram, shell } from "../../os/short-program.ts";
import type { HostLease } from "../../plugin/host/lease.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { BoundSecret } from "../../proxy/bound-secret.ts";
import { deniesByDefault } from "../../proxy/host-rules.ts";
import { FileLock } from "../../store/files/file-lock.ts";

interface EnvironmentSources {
  providers: Providers;
  devices: HostLease;
  /** The user's file with keys. */
  userEnv: Env;
  /** The keys that commands have printed. */
  fetched: readonly string[];
  /** Where the keys of plugins are looked up, before the user's file; by default the environment itself. */
  pluginEnv?: Env;
}

/** Names in the user's file with keys that hold secrets, not addresses or other settings. */
const SECRET_NAME = /KEY|TOKEN|SECRET|PASS|CREDENTIAL/i;

export function runEnvironment(
  env: Env,
  { providers, devices, userEnv, fetched, pluginEnv = env }: EnvironmentSources,
) {
  const own = devices.secrets ?? [];
  const names = [...keyNames({ providers, devices: devices.namespace }), ...own];
  const more = Object.keys(userEnv).filter((name) => SECRET_NAME.test(name));
  const secrets = providerKeys([env, userEnv], [...names, ...more]);
  return {
    env: environments.of(toolEnvironment(env, names, [...secrets, ...fetched])),
    /** Values that are redacted. */
    secrets,
    pluginKeys: namedKeys(own, [pluginEnv, userEnv]),
  };
}

/** Without keys; those of most runs are equal. */
const environments = new LastEqual<Record<string, string>>();

/** A shorter text can't be hidden. */
const MIN_SECRET = 8;

/** The values of the user's secrets. One that is not there is left out, with a notice. */
export function boundSecretsOf(
  settings: NonNullable<Settings["own"]["secrets"]>,
  envs: readonly Env[],
  notices: string[],
): BoundSecret[] | undefined {
  const found = Object.entries(settings).flatMap(([name, { from, hosts }]) => {
    requireHosts(name, hosts);
    const value = from === "env" ? namedKeys([name], envs)[name] : secretIn(from, envs);
    if (value !== undefined && value.length >= MIN_SECRET) return [{ name, value, hosts }];
    const where = from === "env" ? "the variable is not set" : `${from} holds none`;
    notices.push(`the secret ${name} is left out: ${where}; expected at least ${MIN_SECRET} characters`);
    return [];
  });
  return found.length === 0 ? undefined : found;
}

/** The first line of a file. */
function secretIn(file: string, [env]: readonly Env[]): string | undefined {
  const path = file.replace(/^~(?=\/)/, env?.HOME ?? "");
  try {
    return readText(path)?.split("\n")[0]?.trim();
  } catch (thrown) {
    if (thrown instanceof SyscallError) return undefined;
    throw thrown;
  }
}

/** Fails with INVALID for what is no host, and for `*`. */
function requireHosts(name: string, hosts: readonly string[]): void {
  let why = "expected hosts by their names, not every one";
  try {
    if (deniesByDefault(hosts)) return;
  } catch (thrown) {
    why = messageOf(thrown);
  }
  throw new SyscallError("INVALID", `secrets.${name}.hosts in ~/.config/rnix/config.yaml: ${why}`);
}

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
  readonly #sources = new BoundedMap<string, CommandKey>(MAX_KEPT);

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
    this.#sources.set(id, known);
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
        argv: shell(command),
        cwd,
        env: this.#env,
        timeoutMs: COMMAND_MS,
        maxChars: MAX_OUTPUT,
        endsAtMax: true,
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
