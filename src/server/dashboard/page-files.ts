/** The files of the dashboard's page. In the binary, build.ts replaces this module by one that has them built and compressed. */

import { join } from "node:path";

export interface PageFile {
  type: string;
  bytes: Uint8Array<ArrayBuffer>;
}

/** By the path of a request. Built when first asked for. */
export async function pageFiles(): Promise<ReadonlyMap<string, PageFile>> {
  built ??= build();
  return built;
}

let built: Promise<ReadonlyMap<string, PageFile>> | undefined;

async function build(): Promise<ReadonlyMap<string, PageFile>> {
  const { buildPage } = await import("./build-page.ts");
  const files = await buildPage(join(import.meta.dir, "../../dashboard"));
  return new Map(
    files.map(({ path, type, text }) => [path, { type, bytes: new TextEncoder().encode(text) }]),
  );
}
