/** The options of boot. */

import type { Env, UserPaths } from "../../config/environment/paths.ts";
import type { Settings } from "../../config/settings/settings.ts";
import type { Logger } from "../../lib/logger.ts";
import type { Host } from "../services.ts";

export interface BootOptions {
  user: UserPaths;
  /** The server's own environment: used for requests that bring none. */
  env: Env;
  settings: Settings;
  host: Host;
  logger: Logger;
  /** The long-running process: it collects old runs and resumes waiting ones by itself. */
  daemon?: boolean;
  /** This process exists for the kernel; see `becomeSubreaper`. */
  alone?: boolean;
  /** The folder of the user's key, where records are only read and `user` is another folder. */
  keyFolder?: string;
}
