import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";

/** Debian's Chromium without a window and without requests of its own. */
export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: Bun.which("chromium") ?? "chromium",
    args: [
      ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"],
      ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
    ],
  });
}

/** What axe-core finds wrong on the page, in short. */
export async function faultsOf(page: Page): Promise<string[]> {
  const axe = await Bun.file(createRequire(import.meta.url).resolve("axe-core/axe.min.js")).text();
  // The page's policy allows no script but its own: this one comes by the protocol of the browser.
  const found: unknown = await page.evaluate(
    `(async () => { const module = { exports: {} }; ${axe}; return (await (window.axe ?? module.exports).run()).violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ")).join(", ")); })()`,
  );
  return Array.isArray(found) ? found.map(String) : [String(found)];
}
