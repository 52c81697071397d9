/** Where the documents of plugins are kept. */

import { join } from "node:path";
import { projectOf } from "./data-dir.ts";

/** The folder below a root run's `plugins`, for the data of its whole tree. No plugin has this name. */
export const TREE = ".tree";

interface DataFolders {
  /** The run's folder; undefined for a mount, which belongs to no run. */
  run?: string;
  /** The folder of the root run of its tree; undefined where there is none. */
  tree?: string;
  project: { id: string; dataDir: string };
  /** The user's data folder. */
  user: string;
}

/**
 * The folder of each scope in which a plugin has a folder of its name. People look for the documents of stock plugins
 * (embedded in the binary), so these are not below `plugins/`. In a data folder that several projects share, each
 * project has a place of its own.
 */
export function pluginFolders(
  isStock: boolean,
  { run, tree, project, user }: DataFolders,
): { run?: string; tree?: string; project: string; user: string } {
  const below = {
    ...(run !== undefined && { run: join(run, "plugins") }),
    ...(tree !== undefined && { tree: join(tree, "plugins", TREE) }),
  };
  if (!isStock) return { ...below, project: join(project.dataDir, "plugins"), user: join(user, "plugins") };
  const isOwn = projectOf(project.dataDir) !== null;
  return {
    ...below,
    project: isOwn ? project.dataDir : join(project.dataDir, "projects", project.id),
    user,
  };
}
