import { resolve } from "node:path";
import { install } from "./install.ts";

/**
 * `npm run test:clis`: brings the CLIs that Rnix drives, MCP servers, an MCP client and three npm projects into a cache folder, and runs the tests that need them. They
 * have names of their own (`*.cli.ts`), so that `bun test` alone does not take them up.
 */
const places = await install();
const tests = [...new Bun.Glob("*.cli.ts").scanSync({ cwd: import.meta.dir, absolute: true })].toSorted();
const run = Bun.spawn([process.execPath, resolve(import.meta.dir, "../suite.ts"), ...tests], {
  env: { ...process.env, ...places },
  stdio: ["inherit", "inherit", "inherit"],
});
process.exit(await run.exited);
