/** Finds programs that a service starts at the request of any program, without a user who types. */

import { existsSync, statSync } from "node:fs";
import { readProc } from "./process-table.ts";

/**
 * Any program of the user can have these start another one: `tmux run-shell`, `screen -X`, `at`, a line of a crontab, a
 * call over D-Bus, `emacsclient`, a remote command of a terminal. What they start does not descend from the run that asked for it.
 */
const SERVICES =
  /^(?:tmux: server|tmux|screen|zellij|dtach|abduco|wezterm-mux-ser|cron|crond|atd|anacron|fcron|dbus-daemon|dbus-broker|supervisord|emacs|kitty|konsole|(?:gnome|xfce4|mate)-terminal-?|ptyxis-agent)$/i;

/** These start what a file of the user names, such as a server of terminals, which has no terminal itself. */
const STARTS_SERVERS = /^dbus-/;

/**
 * Returns the service that has started this process or an ancestor of it, without a user who has typed at the terminal
 * of what it has started; null for none. A terminal that something made below the service says nothing. Linux only.
 */
export function serviceBehind(pid: number): string | null {
  const line: Starter[] = [];
  for (let one = starterOf(pid); one && line.length < MAX_ANCESTORS; one = starterOf(one.ppid)) {
    const started = line.at(-1);
    const isServer = STARTS_SERVERS.test(one.name) && SERVICES.test(started?.name ?? "");
    if (started && SERVICES.test(one.name) && !isServer && !isTypedAt(started.terminal)) return one.name;
    line.push(one);
  }
  return line.some(({ terminal }) => isTypedAt(terminal)) ? null : transientUnit(pid);
}

const MAX_ANCESTORS = 1000;

interface Starter {
  name: string;
  ppid: number;
  /** The number of its terminal; null without one. */
  terminal: number | null;
}

function starterOf(pid: number): Starter | null {
  const stat = pid < 1 ? null : readProc(`/proc/${pid}/stat`);
  if (stat === null) return null;
  const end = stat.lastIndexOf(")");
  const [, ppid, , , terminal] = stat.slice(end + 2).split(" ");
  const name = stat.slice(stat.indexOf("(") + 1, end);
  return { name, ppid: Number(ppid), terminal: Number(terminal) || null };
}

/** The system sets a terminal's time of reading when a program reads what was typed, at most every 8 seconds. */
function isTypedAt(device: number | null): boolean {
  if (device === null) return false;
  const major = (device >> 8) & 0xfff;
  // No service opens a console or a serial line.
  if (major < FIRST_PTS || major > LAST_PTS) return true;
  const minor = (device & 0xff) | ((device >> 12) & 0xfff00);
  const found = statSync(`/dev/pts/${(major - FIRST_PTS) * 256 + minor}`, { throwIfNoEntry: false });
  return found !== undefined && found.atimeMs > found.ctimeMs;
}

const FIRST_PTS = 136;
const LAST_PTS = 143;

/** A unit of `systemd-run`, which has no file of the user. */
function transientUnit(pid: number): string | null {
  const path = /^0::(.*)$/m.exec(readProc(`/proc/${pid}/cgroup`) ?? "")?.[1] ?? "";
  const unit = path.slice(path.lastIndexOf("/") + 1);
  if (!unit.endsWith(".service")) return null;
  const uid = /\/user@(\d+)\.service\//.exec(path)?.[1];
  const folder = uid === undefined ? "/run" : `/run/user/${uid}`;
  return existsSync(`${folder}/systemd/transient/${unit}`) ? `systemd (${unit})` : null;
}
