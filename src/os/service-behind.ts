/** Finds programs that a service starts at the request of any program, without a user who types. */

import { existsSync, statSync } from "node:fs";
import { readProc } from "./process-table.ts";

/**
 * Any program of the user can have these start another one: `tmux run-shell`, `screen -X`, `at`, a line of a crontab, a
 * call over D-Bus, `emacsclient`, a remote command of a terminal. What they start does not descend from the run that asked for it.
 */
const SERVICES =
  /^(?:tmux: server|tmux|screen|zellij|dtach|abduco|wezterm-mux-ser|cron|crond|atd|anacron|fcron|dbus-daemon|dbus-broker|supervisord|emacs|kitty|konsole|(?:gnome|xfce4|mate)-terminal-?|ptyxis-agent)$/i;

/**
 * Returns the service that has started this process or an ancestor of it; null for none, and where the user has typed at
 * the terminal of one of these processes. Linux only.
 */
export function serviceBehind(pid: number): string | null {
  const passed = new Set<number>();
  for (let one = starterOf(pid); one && !passed.has(one.pid); one = starterOf(one.ppid)) {
    if (one.pid !== pid && SERVICES.test(one.name)) return one.name;
    if (one.terminal !== null && isTypedAt(one.terminal)) return null;
    passed.add(one.pid);
  }
  return transientUnit(pid);
}

interface Starter {
  pid: number;
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
  return { pid, name, ppid: Number(ppid), terminal: Number(terminal) || null };
}

/** The system sets a terminal's time of reading when a program reads what was typed, at most every 8 seconds. */
function isTypedAt(device: number): boolean {
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
