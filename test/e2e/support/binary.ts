import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const CHECKOUT = resolve(import.meta.dir, "../../..");

/** The compiled rnix these tests drive: `RNIX_BINARY`, or the checkout's own. */
export function binary(): string {
  const path = resolve(process.env.RNIX_BINARY ?? join(CHECKOUT, "rnix"));
  if (existsSync(path)) return path;
  throw new Error(`${path} is not there: run \`npm run build\` first, or set RNIX_BINARY.`);
}
