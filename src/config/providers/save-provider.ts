/** Writes a provider and its key into the user's files, and keeps everything else in them. */

import { chmodSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { linkTarget, readText, writeAtomic } from "../files/file.ts";
import { parseYaml } from "../files/yaml.ts";
import { ProvidersFile } from "./provider-file.ts";

/** What is written. */
interface SavedProvider {
  name: string;
  model: string;
  /** Further keys of its entry. null removes one. */
  entry: Readonly<Record<string, string | null>>;
  /** A key for `~/.config/rnix/env`, below this variable. */
  key?: { variable: string; value: string };
}

/**
 * Makes the provider the user's default, with this model. Returns the files that were written. Fails before the first is
 * written when one of them can't be read; when the second can't be written, the first is put back.
 */
export async function saveProvider(configDir: string, saved: SavedProvider): Promise<string[]> {
  const providers = linkTarget(join(configDir, "providers.yaml"));
  const text = await withProvider(providers, readText(providers) ?? "", saved);
  if (saved.key === undefined) {
    writeAtomic(providers, text);
    return [providers];
  }
  const env = linkTarget(join(configDir, "env"));
  const before = readText(env);
  writeAtomic(env, withVariable(before ?? "", saved.key));
  try {
    writeAtomic(providers, text);
  } catch (error) {
    writeAtomic(env, before ?? "");
    throw error;
  }
  chmodSync(env, 0o600);
  return [env, providers];
}

/** The lines with one variable set. Other lines stay as they are. */
export function withVariable(text: string, { variable, value }: { variable: string; value: string }): string {
  if (/[\r\n]/.test(value)) throw new SyscallError("INVALID", "a key has no line break");
  const line = `${variable}=${/^\s|\s$|^(["']).*\1$/.test(value) ? `"${value}"` : value}`;
  const own = new RegExp(`^\\s*(?:export\\s+)?${variable}=`);
  const lines = text === "" ? [] : text.replace(/\n$/, "").split("\n");
  const at = lines.findIndex((one) => own.test(one));
  const others = lines.filter((one, index) => index === at || !own.test(one));
  return `${(at < 0 ? [...others, line] : others.with(at, line)).join("\n")}\n`;
}

/** The text of providers.yaml with the provider as default. Its comments, order and other entries stay. */
export async function withProvider(
  file: string,
  text: string,
  { name, model, entry }: Omit<SavedProvider, "key">,
): Promise<string> {
  // Mistakes in the file are the user's to mend: nothing is written over them.
  await parseYaml(ProvidersFile, text, file);
  const yaml = await import("yaml");
  const document = yaml.parseDocument(text);
  document.setIn(["default_provider"], name);
  for (const path of [["providers"], ["providers", name]])
    if (!yaml.isMap(document.getIn(path))) document.setIn(path, document.createNode({}));
  for (const [key, value] of Object.entries({ ...entry, default_model: model })) {
    if (value === null) document.deleteIn(["providers", name, key]);
    else document.setIn(["providers", name, key], value);
  }
  const written = document.toString({ lineWidth: 0 });
  await parseYaml(ProvidersFile, written, file);
  return written;
}
