import { readAttached, readIntent } from "../../../src/cli/run/stdin.ts";
import { systemIo } from "../../../src/cli/system/system.ts";

/** Prints what `rnix spawn` takes from this program's stdin: with an argument the intent, else the attachment. */
const io = systemIo();
const o = { stdin: false, "no-stdin": false, timeout: undefined, quiet: true };
const wanted =
  process.argv[2] === "intent"
    ? readIntent(io, { ...o, asked: true, what: "intent" })
    : readAttached(io, { ...o, ...JSON.parse(process.argv[3] ?? "{}") });
const answer = await wanted.then(
  (value) => ({ kind: io.stdin.kind, value }),
  (error: unknown) => ({ kind: io.stdin.kind, error: String(error) }),
);
io.stdout.write(JSON.stringify(answer));
await io.stdout.drained();
process.exit(0);
