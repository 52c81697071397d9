/** Opens what projects bring: configuration, plugins and keys. */

import { join } from "node:path";
import { daemonEnvironment } from "../../config/environment/environment.ts";
import { thisUser } from "../../config/environment/paths.ts";
import { Secrets } from "../../kernel/process/secrets.ts";
import { type Lazy, lazy } from "../../lib/caches.ts";
import { embeddedAgents, embeddedSkills } from "../../plugin/host/embedded.ts";
import { PluginHost } from "../../plugin/host/host.ts";
import type { Confine } from "../../plugin/host/process-options.ts";
import { Notifier } from "../notify/notifier.ts";
import type { BasePorts, BaseRevisions } from "../plan/base-revision.ts";
import { CommandKeys } from "../plan/run-environment.ts";
import { type ActiveProjects, RunWatch } from "../plan/run-watch.ts";
import { BASES, Workspaces } from "../plan/workspace.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";

/** What projects bring: configuration, plugins and API keys. */
export interface OpenedProjects {
  workspaces: Workspaces;
  runWatch: RunWatch;
  keys: CommandKeys;
  /** The keys that commands have printed, of all runs. */
  fetchedKeys: Secrets;
  /** Notifies commands and addresses that the user has set. */
  notifier: Lazy<Notifier>;
  close(): Promise<void>;
}

/** Opens projects: their workspaces, their plugins, the watch over followed ones, and commands that print keys. */
export function openProjects(
  { user, env, logger }: BootOptions,
  { kernelId, kernelAlive, children, clock }: Machine,
): OpenedProjects {
  let confinePlugin: Confine | undefined;
  const plugins = new PluginHost({
    configDir: user.configDir,
    start: (argv, onMessage, confined) => children.startPlugin(argv, onMessage, confined),
    confine: async (sandbox) => {
      // Loaded with the first plugin from disk.
      confinePlugin ??= (await import("../plan/confine-plugin.ts")).confinePlugins(user, env);
      return confinePlugin(sandbox);
    },
  });
  const activeProjects: ActiveProjects = new Map();
  const workspaces = new Workspaces({
    user,
    uid: thisUser().uid,
    plugins,
    bases: lazyBases({
      folder: join(user.dataDir, BASES),
      scratch: join(user.dataDir, "git"),
      children,
      clock,
    }),
    hasRuns: ({ id }) => activeProjects.has(id),
    embedded: { agents: embeddedAgents, skills: embeddedSkills },
  });
  const runWatch = new RunWatch({
    userDataDir: user.dataDir,
    kernelId,
    kernelAlive,
    activeProjects,
    project: (dir) => workspaces.projectOf({ cwd: dir, env: {} }),
    items: (project) => workspaces.trustItems(project),
    logger,
  });
  const fetchedKeys = new Secrets();
  const keys = new CommandKeys({
    children,
    clock,
    fetched: fetchedKeys,
    spillDir: join(user.dataDir, "tmp"),
    lockDir: join(user.dataDir, "keys"),
  });
  const notifier = lazy(
    () =>
      new Notifier({
        children,
        clock,
        logger,
        spillDir: join(user.dataDir, "tmp"),
        env: daemonEnvironment(env),
      }),
  );
  const close = async (): Promise<void> => {
    await notifier.end()?.close();
    await plugins.close();
  };
  return { workspaces, runWatch, keys, fetchedKeys, notifier, close };
}

/** Base revisions are loaded with the first `--base`: a plain spawn needs none of them. */
function lazyBases(ports: BasePorts): Pick<BaseRevisions, "open"> {
  return {
    async open(wanted) {
      const { BaseRevisions } = await import("../plan/base-revision.ts");
      return new BaseRevisions(ports).open(wanted);
    },
  };
}
