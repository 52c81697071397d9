/** Builds the dashboard's page: one HTML file, one style sheet, one script. Runs at build time, and in a checkout. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

interface BuiltFile {
  /** Of a request. */
  path: string;
  type: string;
  text: string;
}

/** `folder`: of the page's sources. */
export async function buildPage(folder: string): Promise<BuiltFile[]> {
  const { outputs } = await Bun.build({
    entrypoints: [join(folder, "page.tsx")],
    target: "browser",
    format: "esm",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const [script] = outputs;
  if (!script) throw new Error(`${folder} gave no page`);
  const read = (name: string): string => readFileSync(join(folder, name), "utf8");
  return [
    { path: "/index.html", type: "text/html; charset=utf-8", text: read("index.html") },
    { path: "/style.css", type: "text/css; charset=utf-8", text: read("style.css") },
    { path: "/page.js", type: "text/javascript; charset=utf-8", text: await script.text() },
  ];
}
