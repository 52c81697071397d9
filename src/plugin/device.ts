/** A device: a path below `/dev` that a driver serves. */

import type { OpenContext } from "./context.ts";
import type { OpenFlag, VFSFile } from "./file.ts";
import type { DriverFacts } from "./provider.ts";
import type { ToolDef } from "./tool.ts";

export interface Device {
  factory: VFSFileFactory;
  /** "exact" by default. With "prefix" the device also serves all paths below its own. */
  match?: "exact" | "prefix";
  tools?: ToolDef[];
  /** Makes the device a model provider. */
  provider?: DriverFacts & {
    /** Returns the default model if the driver can be used in this environment, else null. */
    detect(env: Record<string, string>): Promise<{ model: string } | null>;
  };
}

/** Opens a file of a device. `subpath`: the rest of the path after the device's, "" or beginning with "/". */
export type VFSFileFactory = (
  subpath: string,
  flags: OpenFlag,
  context: OpenContext,
) => VFSFile | Promise<VFSFile>;
