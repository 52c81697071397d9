/** `rnix dashboard`: opens the page that shows all runs. */

import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, count } from "../flags.ts";
import { refuseInsideRun, withWire } from "../io.ts";
import { openBrowser } from "../system/open-browser.ts";

const MAX_PORT = 65_535;

export default defineCommand({
  about: "Open the page that shows what runs, what it did, what it cost, and what waits for you",
  flags: {
    port: count("listen there; by default a free port, the same until the daemon ends", "N"),
    "metrics-token": bool("print the token of /metrics, for Prometheus, instead of opening the page"),
    "new-metrics-token": bool("make another token, print it, and refuse the one before"),
    "no-browser": bool("print the address only"),
  },
  examples: {
    "rnix dashboard": "prints an address that works once, and opens it",
    "rnix dashboard --metrics-token >token": "for `credentials_file` of Prometheus",
  },
  notes: [
    "The daemon serves it on 127.0.0.1. The address has a token that is good once, for five minutes; then the browser has a cookie.",
    "The setting `dashboard` lets it listen elsewhere, with a password instead of the token.",
    "A metrics token reads /metrics only, until it is replaced. The address is printed to stderr.",
    "It is for a person: inside a run it is refused.",
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "dashboard");
    if ((flags.port ?? 0) > MAX_PORT)
      throw usageError(`--port: expected at most ${MAX_PORT}, got ${flags.port}`);
    const asked = flags["new-metrics-token"] ? "new-token" : flags["metrics-token"] ? "token" : undefined;
    const { url, metrics } = await withWire(io, (wire) =>
      wire.request("open_dashboard", { port: flags.port, metrics: asked }),
    );
    if (metrics) {
      io.stderr.write(`${metrics.url}\n`);
      io.stdout.write(`${metrics.token}\n`);
      return EXIT.ok;
    }
    io.stdout.write(`${url}\n`);
    if (!flags["no-browser"]) await openBrowser(io, url);
    return EXIT.ok;
  },
});
