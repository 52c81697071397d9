/** What the server does for questions to a person: it stores what is always allowed, and notifies the user's hook. */

import { allowAlways } from "../../config/settings/always-rules.ts";
import { loadSettings } from "../../config/settings/settings.ts";
import type { Asker } from "../../kernel/asks/asks.ts";
import type { Logger } from "../../lib/logger.ts";
import type { LiveAsk } from "../../run/live-event.ts";
import { askOf } from "../methods/shared/stream-events.ts";
import type { Notifier } from "../notify/notifier.ts";
import type { Workspaces } from "../plan/workspace.ts";

interface AskerPorts {
  userDataDir: string;
  workspaces: Pick<Workspaces, "at" | "projectOf">;
  notifier: Pick<Notifier, "notify">;
  /** The project folder of a live process. */
  projectOf(pid: number): string;
  logger: Logger;
}

export function serverAsker({ userDataDir, workspaces, notifier, projectOf, logger }: AskerPorts): Asker {
  const notify = async (ask: LiveAsk, project: string): Promise<void> => {
    const { sources } = await workspaces.at({ cwd: project, env: {} });
    const { on_ask: target } = (await loadSettings(sources)).words;
    if (target !== null) notifier.notify({ target, cwd: project }, { event: "ask", project, ...askOf(ask) });
  };
  return {
    parked(ask) {
      notify(ask, projectOf(ask.pid)).catch((thrown: unknown) =>
        logger.warn(`run ${ask.uuid}`, `the hook of its question: ${String(thrown)}`),
      );
    },
    async allowInProject({ dir }, rules) {
      const { dev, ino, ctimeMs } = await allowAlways(
        userDataDir,
        workspaces.projectOf({ cwd: dir, env: {} }),
        rules,
      );
      return [{ dev, ino, ctimeMs }];
    },
  };
}
