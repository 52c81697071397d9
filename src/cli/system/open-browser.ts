/** Opens an address in the user's browser. */

import type { Io } from "../io.ts";

const BROWSER_MS = 10_000;

/** Where no browser can be opened, the printed address is left. */
export async function openBrowser({ env, cwd }: Io, address: string): Promise<void> {
  const { runForInput } = await import("../../os/user-programs.ts");
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  if (program === "xdg-open" && !env.DISPLAY && !env.WAYLAND_DISPLAY) return;
  await runForInput([program, address], { cwd, env, timeoutMs: BROWSER_MS, input: "" });
}
