/** Opens the records of all projects. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { daemonEnvironment } from "../../config/environment/environment.ts";
import { thisUser, type UserPaths } from "../../config/environment/paths.ts";
import { findProject, Projects } from "../../config/project/project.ts";
import { loadSettings } from "../../config/settings/settings.ts";
import { ORIGINS } from "../../kernel/files/worktree-origin.ts";
import type { Worktrees } from "../../kernel/files/worktrees.ts";
import { lazy } from "../../lib/caches.ts";
import { FileLock } from "../../store/files/file-lock.ts";
import { RecordKey } from "../../store/runs/record-key.ts";
import { RunStore } from "../../store/runs/run-store.ts";
import type { SearchIndex } from "../../store/search/search-index.ts";
import type { Collector } from "../records/collector.ts";
import type { History } from "../records/history.ts";
import type { RunChanges } from "../records/run-changes.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";

/** The records of all the user's projects. What most runs do without is loaded at its first use. */
export interface Records {
  /** Authenticates what this user has written. */
  key: RecordKey;
  open(dataDir: string): RunStore;
  /** Data folders with runs: of all known projects, of those in use, and of the project that `cwd` lies in. */
  dataDirs(cwd?: string): string[];
  projects: Projects;
  history(): Promise<History>;
  collector(): Promise<Collector>;
  changes(): Promise<RunChanges>;
  worktrees(): Promise<Worktrees>;
  /** The derived index, in its Worker. */
  search: Pick<SearchIndex, "ask">;
  lastCollected: string;
  /** The notice for runs if the record key could not be saved; else undefined. */
  keyNotice: string | undefined;
  close(): Promise<void>;
}

/** Opens the records: the list of projects, their stores, and what reads and collects runs over all of them. */
export function openRecords(
  { user, env, logger, daemon = false, keyFolder }: BootOptions,
  { children, clock, kernelAlive }: Machine,
  port: KernelPort,
): Records {
  const key =
    keyFolder === undefined
      ? RecordKey.open(recordKeyFile(user))
      : RecordKey.ofReader(recordKeyFile({ dataDir: keyFolder }));
  const projects = new Projects(user.dataDir, FileLock, (text) => logger.warn("projects", text));
  const index = lazy(async () => {
    const { SearchIndex } = await import("../../store/search/search-index.ts");
    return new SearchIndex({ key, clock, warn: (text) => logger.warn("index", text) });
  });
  const search: Records["search"] = { ask: async (...request) => (await index()).ask(...request) };
  const stores = new Map<string, RunStore>();
  const opened = (dataDir: string): RunStore => {
    // A command reads the runs itself: nothing else waits for its thread.
    if (!daemon) return new RunStore(dataDir, undefined, key);
    const store: RunStore = new RunStore(dataDir, undefined, key, async () => {
      const { WorkerRunLists } = await import("../../store/search/worker-run-lists.ts");
      const own = (): ReturnType<RunStore["ownIndex"]> => store.ownIndex();
      return new WorkerRunLists({ index: await index(), dataDir, own, info: (uuid) => store.info(uuid) });
    });
    return store;
  };
  const open = (dataDir: string): RunStore => {
    const store = stores.get(dataDir) ?? opened(dataDir);
    stores.set(dataDir, store);
    return store;
  };
  const dataDirs = (cwd?: string): string[] => {
    const project =
      cwd === undefined ? undefined : findProject({ cwd, home: user.home, uid: thisUser().uid, env });
    const here = [project?.dataDir, project?.unwritableDataDir].filter((dir) => dir !== undefined);
    return [...new Set([...here, ...projects.list().map(({ data_dir }) => data_dir), ...stores.keys()])];
  };
  const history = lazy(async () => {
    const { History } = await import("../records/history.ts");
    return new History({
      dataDirs,
      open,
      kernelAlive,
      unrecordedEnd: (uuid) => port.kernel.lifecycle.unrecordedEnd(uuid),
    });
  });
  const lastCollected = join(user.dataDir, "gc", "last.json");
  const collector = lazy(async () => {
    const { Collector } = await import("../records/collector.ts");
    return new Collector({
      dataDirs,
      open,
      kernelAlive,
      clock,
      limits: async () => (await loadSettings({ configDir: user.configDir })).values,
      lockPath: join(user.dataDir, "gc", "lock"),
      lastPath: lastCollected,
    });
  });
  const changes = lazy(async () => {
    const { RunChanges } = await import("../records/run-changes.ts");
    return new RunChanges({ children, env, clock, open, scratch: join(user.dataDir, "git") });
  });
  const worktrees = lazy(async () => {
    const { Worktrees } = await import("../../kernel/files/worktrees.ts");
    return new Worktrees({
      children,
      clock,
      env: daemonEnvironment(env),
      userDataDir: user.dataDir,
      scratch: join(user.dataDir, "git"),
    });
  });
  if (daemon && existsSync(join(user.dataDir, ORIGINS)))
    void worktrees().then((all) => all.sweep(open, (text) => logger.warn("worktrees", text)));
  return {
    key,
    open,
    dataDirs,
    projects,
    history,
    collector,
    changes,
    worktrees,
    search,
    lastCollected,
    keyNotice: key.lasting ? undefined : noKey(user),
    close: async () => (await index.end())?.close(),
  };
}

/** The key that marks records as this user's own. */
export function recordKeyFile({ dataDir }: Pick<UserPaths, "dataDir">): string {
  return join(dataDir, "record.key");
}

function noKey(user: UserPaths): string {
  return `no key could be written to ${recordKeyFile(user)}: the record of this run is foreign to later commands, so it can't be resumed`;
}
