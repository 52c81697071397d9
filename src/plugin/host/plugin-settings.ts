/** Checks a plugin's settings against its schema. */

import type { z } from "zod";
import { issueText } from "../../lib/issue-text.ts";
import { readSchema } from "../../vfs/json-schema.ts";
import { type Plugin, SyscallError } from "../index.ts";

/**
 * The plugin's settings from config.yaml, checked against its configSchema and completed with the schema's defaults.
 * Fails with INVALID for settings that do not fit. A plugin without a schema gets no settings.
 */
export function pluginSettings({ name, configSchema }: Plugin, part: unknown): unknown {
  if (!configSchema) {
    if (part === undefined) return undefined;
    throw new SyscallError(
      "INVALID",
      `config.yaml has settings for plugin ${name}, which takes none. Remove plugins.${name}.`,
    );
  }
  const parsed = compiled(configSchema).safeParse(part ?? {});
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => ({ ...issue, path: ["plugins", name, ...issue.path] }));
  throw new SyscallError(
    "INVALID",
    `The settings of plugin ${name} in config.yaml do not fit its schema. ${issueText({ issues })}.`,
  );
}

/** Each run reads the settings of all its plugins; a plugin's schema stays the same object until it is loaded again. */
const schemas = new WeakMap<object, z.ZodType>();

function compiled(schema: object): z.ZodType {
  const known = schemas.get(schema);
  if (known) return known;
  const made = readSchema(schema);
  schemas.set(schema, made);
  return made;
}
