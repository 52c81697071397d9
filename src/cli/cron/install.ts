/** `rnix cron install` and `uninstall`: the service that starts the daemon after a reboot. */

import { defineCommand } from "../command.ts";
import { bool, json } from "../flags.ts";
import { refuseInsideRun } from "../io.ts";

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
    const { installService } = await import("./install-service.ts");
    return installService(io, flags);
  },
});

export const uninstall = defineCommand({
  about: "Remove the service of rnix cron install; jobs stay",
  examples: { "rnix cron uninstall": "a running daemon continues until rnix daemon stop" },
  async run(io) {
    await refuseInsideRun(io, "cron uninstall");
    const { uninstallService } = await import("./install-service.ts");
    return uninstallService(io);
  },
});
