/** The service that starts the daemon when the user logs in or the machine starts: a systemd user unit, or a launchd agent. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Env, userPaths } from "../../config/environment/paths.ts";
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
