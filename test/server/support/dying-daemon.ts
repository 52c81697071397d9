import { mkdirSync } from "node:fs";
import { createServer } from "node:net";
import { dirname } from "node:path";
import { userPaths } from "../../../src/config/environment/paths.ts";
import { PROTOCOL } from "../../../src/protocol/frame.ts";
import { commit, version } from "../../../src/version.ts";

/** Acts as a daemon that dies while it starts: the reason is only in its log. */
const { socket } = userPaths(process.env);
mkdirSync(dirname(socket), { recursive: true, mode: 0o700 });
const who = {
  version,
  protocol: PROTOCOL,
  build: commit,
  pid: process.pid,
  started_at_ms: 0,
  starting: true,
};
createServer((client) => {
  let asked = 0;
  client.on("data", (line) => {
    if (++asked > 1) {
      process.stderr.write("the part that it needs did not come up\n");
      process.exit(69);
    }
    const { id } = JSON.parse(line.toString());
    client.write(`${JSON.stringify({ ok: true, payload: who, id })}\n`);
  });
}).listen(socket);
