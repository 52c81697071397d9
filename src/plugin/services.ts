/** The services of the kernel, which a plugin names in `needs`. */

import type { Ask } from "./ask.ts";
import type { History } from "./history.ts";
import type { Llm } from "./llm.ts";
import type { Child, ExecRequest } from "./programs.ts";
import type { Schedule } from "./schedule.ts";
import type { Search } from "./search.ts";
import type { Store } from "./store.ts";
import type { ToolService } from "./tool.ts";
import type { Units } from "./units.ts";

/** The services of the kernel. A plugin names those it uses in `needs`; the others are undefined. */
export interface Services {
  /** The only way to start a program. The program always ends with its owner. */
  exec(command: ExecRequest): Promise<Child>;
  store: Store;
  /**
   * With a name: the key of this name, one of the plugin's `secrets`. Without one, for model drivers: the key of the
   * provider's entry. Fails with UNAVAILABLE without a key.
   */
  secret(name?: string): Promise<string>;
  /** For model drivers while they answer, when their program calls tools by itself. */
  tools: ToolService;
  history: History;
  search: Search;
  /** The scheduled jobs of the process's project, with the process's rights. */
  schedule: Schedule;
  ask: Ask;
  llm: Llm;
  /** The background units of the process. */
  units: Units;
}
