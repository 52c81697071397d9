/** `rnix cron install` and `uninstall`: the service that starts the daemon after a reboot. */

import { existsSync, mkdirSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { readRegularSync } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { stopDaemon } from "../daemon/stop-daemon.ts";
import { EXIT } from "../exit.ts";
import { bool, json } from "../flags.ts";
import { type Io, isAskable, refuseInsideRun, withWire } from "../io.ts";
import { agreed } from "../questions/answer-questions.ts";
import { disableService, enableService, lingers, MARK, type Service, serviceOf } from "./service.ts";

const LINGER = "loginctl enable-linger";
const MAX_FILE = 1024 * 1024;

export const install = defineCommand({
  about: "Start the daemon with the machine, so that jobs run after a reboot",
  flags: {
    print: bool("only print the service's file"),
    yes: bool("write it without a question", { short: "y" }),
    json,
  },
  examples: {
    "rnix cron install": "shows a systemd user unit or a launchd agent, asks, and starts it",
    "rnix cron install --print": "prints the unit and writes nothing",
  },
  notes: [
    "A running daemon hands its runs over to the service's. After an update of rnix at another path, install again.",
    "Without lingering, systemd starts a user's services at the first login: loginctl enable-linger.",
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "cron install");
    const service = requireService(io);
    if (flags.print) {
      io.stdout.write(service.text);
      return EXIT.ok;
    }
    requireOurs(service);
    if (!flags.json) io.stderr.write(`${service.path}\n\n${indented(service.text)}\n`);
    if (!flags.yes && !(await confirmed(io, "Write this file and start the service?"))) return EXIT.ok;
    mkdirSync(dirname(service.path), { recursive: true });
    const { replaceDocument } = await import("../../store/files/document.ts");
    await replaceDocument(service.path, service.text);
    let stopped: Awaited<ReturnType<typeof stopDaemon>> = null;
    // Two daemons don't share a socket: the service's takes over the runs of this one.
    const left = await enableService(io, service, async () => {
      stopped = await stopDaemon(io, { restart: true });
    });
    if (stopped !== null && left.length > 0)
      await withWire(io, (wire) => wire.request("ping", { started: true }));
    const linger = lingers(io);
    if (flags.json) {
      io.stdout.write(
        `${JSON.stringify({ path: service.path, started: left.length === 0, left, lingers: linger })}\n`,
      );
      return left.length === 0 ? EXIT.ok : EXIT.unavailable;
    }
    io.stderr.write(`written: ${service.path}\n`);
    for (const step of left) io.stderr.write(`to do: ${step}\n`);
    if (left.length === 0) io.stderr.write("the service runs; rnix doctor checks it\n");
    if (linger === false)
      io.stderr.write(`it starts when you log in; to start it with the machine: ${LINGER}\n`);
    return left.length === 0 ? EXIT.ok : EXIT.unavailable;
  },
});

export const uninstall = defineCommand({
  about: "Remove the service of rnix cron install; jobs stay",
  examples: { "rnix cron uninstall": "a running daemon continues until rnix daemon stop" },
  async run(io) {
    await refuseInsideRun(io, "cron uninstall");
    const service = requireService(io);
    if (!existsSync(service.path)) {
      io.stderr.write(`nothing is installed: there is no ${service.path}\n`);
      return EXIT.ok;
    }
    requireOurs(service);
    const left = await disableService(io, service);
    rmSync(service.path);
    io.stderr.write(`removed: ${service.path}\n`);
    for (const step of left) io.stderr.write(`to do: ${step}\n`);
    return EXIT.ok;
  },
});

function requireService(io: Io): Service {
  const service = serviceOf(io);
  if (service) return service;
  throw new SyscallError(
    "UNAVAILABLE",
    `there is no service manager for ${process.platform}: start "rnix daemon start --foreground" with your own`,
  );
}

/** Fails with INVALID for a file that this command has not written. */
function requireOurs({ path }: Service): void {
  if (!existsSync(path) || readRegularSync(path, MAX_FILE).includes(MARK)) return;
  throw new SyscallError(
    "INVALID",
    `${path} was not written by rnix cron install: move it away first, or use rnix cron install --print`,
  );
}

async function confirmed(io: Io, question: string): Promise<boolean> {
  if (isAskable(io)) return agreed(io, question);
  throw new SyscallError(
    "INVALID",
    "without a terminal, expected --yes to write the file, or --print to show it",
  );
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, "  ");
}
