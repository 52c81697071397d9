import { type Plugin, SyscallError } from "../index.ts";

/**
 * A plugin's part of config.yaml, checked against its configSchema and with the schema's defaults. INVALID
 * names what does not fit. Without a schema nothing is handed over.
 */
export async function pluginSettings({ name, configSchema }: Plugin, part: unknown): Promise<unknown> {
  if (!configSchema) {
    if (part === undefined) return undefined;
    throw new SyscallError(
      "INVALID",
      `config.yaml has settings for plugin ${name}, which takes none. Remove plugins.${name}.`,
    );
  }
  const { z } = await import("zod");
  const parsed = z.fromJSONSchema({ ...configSchema }).safeParse(part ?? {});
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(
    ({ path, message }) => `${["plugins", name, ...path].join(".")}: ${message}`,
  );
  throw new SyscallError(
    "INVALID",
    `The settings of plugin ${name} in config.yaml do not fit its schema. ${issues.join("; ")}.`,
  );
}
