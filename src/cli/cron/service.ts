/** The service that starts the daemon when the user logs in or the machine starts: a systemd user unit, or a launchd agent. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Env, userPaths } from "../../config/environment/paths.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Io } from "../io.ts";

export interface Service {
  kind: "systemd" | "launchd";
  name: string;
  /** Absolute. */
  path: string;
  text: string;
}

/** Files without this line were not written by Rnix, and are left alone. */
export const MARK = "Written by `rnix cron install`.";

/** Variables that decide where the daemon finds its files. A service manager does not know those of a shell. */
const PLACES = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "RNIX_SOCKET", "RNIX_DATA_DIR"];

/** null on a system with neither. */
export function serviceOf(io: Pick<Io, "env">, platform: string = process.platform): Service | null {
  const { env } = io;
  const { home } = userPaths(env);
  const program = process.execPath;
  if (platform === "darwin") {
    const name = "dev.rnix.daemon";
    const path = join(home, "Library", "LaunchAgents", `${name}.plist`);
    return { kind: "launchd", name, path, text: plist(name, program, variables(env, home)) };
  }
  if (platform !== "linux") return null;
  const config = env.XDG_CONFIG_HOME?.startsWith("/") ? env.XDG_CONFIG_HOME : join(home, ".config");
  const name = "rnix.service";
  return {
    kind: "systemd",
    name,
    path: join(config, "systemd", "user", name),
    text: unit(program, variables(env, home)),
  };
}

/** PATH, because checks, gates and servers are programs that are found by it; and where the files are. */
function variables(env: Env, home: string): [string, string][] {
  const names = ["PATH", ...PLACES];
  const own = names.flatMap((name): [string, string][] => {
    const value = env[name];
    return value === undefined || value === "" || /[\n\0]/.test(value) ? [] : [[name, value]];
  });
  return [["HOME", home], ...own];
}

function unit(program: string, env: readonly [string, string][]): string {
  const lines = env.map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}`);
  return `# ${MARK} \`rnix cron uninstall\` removes it.
[Unit]
Description=Rnix daemon: scheduled jobs and runs of AI agents
StartLimitIntervalSec=10min
StartLimitBurst=20

[Service]
Type=exec
ExecStart=${quoted(program)} daemon start --foreground
${lines.join("\n")}
# A crash restarts it, and its runs resume. A mistake in a configuration file (64) does not.
Restart=on-failure
RestartSec=2s
RestartPreventExitStatus=64
# It ends the programs of its runs itself.
KillMode=mixed
TimeoutStopSec=60s

[Install]
WantedBy=default.target
`;
}

/** A word of a unit file: % is a specifier and $ a variable there. */
function quoted(text: string): string {
  const escaped = text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("%", "%%");
  return `"${escaped.replaceAll("$", "$$$$")}"`;
}

function plist(name: string, program: string, env: readonly [string, string][]): string {
  const strings = [program, "daemon", "start", "--foreground"].map(
    (one) => `    <string>${xml(one)}</string>`,
  );
  const pairs = env.map(([key, value]) => `    <key>${key}</key><string>${xml(value)}</string>`);
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ${MARK} \`rnix cron uninstall\` removes it. -->
<plist version="1.0">
<dict>
  <key>Label</key><string>${name}</string>
  <key>ProgramArguments</key>
  <array>
${strings.join("\n")}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
${pairs.join("\n")}
  </dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key>
  <dict><key>SuccessfulExit</key><false/></dict>
  <key>ExitTimeOut</key><integer>60</integer>
  <key>ProcessType</key><string>Background</string>
</dict>
</plist>
`;
}

function xml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** What the user should know when a job was made; null: the daemon is installed, and jobs run after a reboot. */
export function firingNotice(io: Io): string | null {
  const service = serviceOf(io);
  if (service === null || existsSync(service.path)) return null;
  return "jobs run while the daemon runs, and after a reboot none starts by itself: rnix cron install changes that";
}

/** A service manager that takes longer is not waited for. */
const CALL_MS = 20_000;
const MAX_OUTPUT = 64 * 1024;
const LINGER = "/var/lib/systemd/linger";

async function call(io: Io, argv: string[]) {
  const { resultOf } = await import("../../os/user-programs.ts");
  return resultOf(argv, { cwd: "/", env: io.env, timeoutMs: CALL_MS, maxBytes: MAX_OUTPUT });
}

/** Registers and starts the service. `beforeStart`: when it is registered. Returns what the user has to do instead. */
export async function enableService(
  io: Io,
  service: Service,
  beforeStart: () => Promise<void>,
): Promise<string[]> {
  const steps =
    service.kind === "systemd"
      ? [
          ["systemctl", "--user", "daemon-reload"],
          ["systemctl", "--user", "enable", service.name],
          ["systemctl", "--user", "restart", service.name],
        ]
      : [["launchctl", "bootstrap", `gui/${process.getuid?.() ?? 0}`, service.path]];
  const [start = []] = steps.slice(-1);
  const left = await notDone(io, steps.slice(0, -1));
  if (left.length > 0) return [...left, start.join(" ")];
  await beforeStart();
  return notDone(io, [start]);
}

export async function disableService(io: Io, service: Service): Promise<string[]> {
  const steps =
    service.kind === "systemd"
      ? [["systemctl", "--user", "disable", service.name]]
      : [["launchctl", "bootout", `gui/${process.getuid?.() ?? 0}/${service.name}`]];
  return notDone(io, steps);
}

async function notDone(io: Io, steps: string[][]): Promise<string[]> {
  const left: string[] = [];
  for (const [at, argv] of steps.entries()) {
    const made = await call(io, argv);
    if (made?.code === 0) continue;
    const why = made === null ? `${argv[0]} is not here` : made.output.split("\n")[0] || `exit ${made.code}`;
    left.push(...steps.slice(at).map((step, i) => `${step.join(" ")}${i === 0 ? `  (${why})` : ""}`));
    break;
  }
  return left;
}

/** Whether the user's services start with the machine, and not only at a login; null: unknown, or no systemd. */
export function lingers(io: Io): boolean | null {
  const user = io.env.USER ?? io.env.LOGNAME;
  if (process.platform !== "linux" || !existsSync("/run/systemd/system") || !user) return null;
  if (user.includes("/")) throw new SyscallError("INVALID", `USER: expected a user's name, got ${user}`);
  return existsSync(join(LINGER, user));
}

/** Whether the service manager starts it; null: it can't be asked. */
export async function isEnabled(io: Io, { kind, name }: Service): Promise<boolean | null> {
  if (kind === "launchd") {
    const listed = await call(io, ["launchctl", "print", `gui/${process.getuid?.() ?? 0}/${name}`]);
    return listed === null ? null : listed.code === 0;
  }
  const asked = await call(io, ["systemctl", "--user", "is-enabled", name]);
  if (asked === null || /Failed to connect|No medium/.test(asked.output)) return null;
  return asked.code === 0;
}
