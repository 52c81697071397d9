/** The first process of a run's network namespace: joins ports of its loopback to the run's proxy outside. */

import { connect, createServer, type Socket } from "node:net";

/**
 * Listens on a free port of 127.0.0.1, prints `PORT PID` and joins each connection to the proxy's socket. `ports` are
 * joined to the same ports of the machine's own loopback, by the proxy. Ends with its stdin.
 */
export async function runBridge([path = "", ...ports]: readonly string[]): Promise<never> {
  const port = await listen(0, (socket) => join(socket, connectTo(path)));
  for (const fixed of ports)
    await listen(Number(fixed), (socket) => join(socket, connectTo(path), `CONNECT 127.0.0.1:${fixed}`));
  process.stdout.write(`${port} ${process.pid}\n`);
  await Bun.stdin.text();
  process.exit(0);
}

function connectTo(path: string): Socket {
  return connect({ path, allowHalfOpen: true });
}

async function listen(port: number, serve: (socket: Socket) => void): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const server = createServer({ allowHalfOpen: true }, serve);
  server.once("error", reject).listen(port, "127.0.0.1", resolve);
  await promise;
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : port;
}

function join(inner: Socket, outer: Socket, request?: string): void {
  const end = (): void => {
    inner.destroy();
    outer.destroy();
  };
  inner.on("error", end);
  outer.on("error", end);
  inner.on("close", () => outer.destroySoon());
  outer.on("close", () => inner.destroySoon());
  if (request === undefined) outer.pipe(inner);
  else {
    outer.write(`${request} HTTP/1.1\r\n\r\n`);
    // The proxy's answer comes in one piece, before anything of the server.
    outer.once("data", (data: Buffer) => {
      const at = data.indexOf("\r\n\r\n");
      if (!data.toString("latin1", 0, 12).endsWith(" 200") || at < 0) return end();
      inner.write(data.subarray(at + 4));
      outer.pipe(inner);
    });
  }
  inner.pipe(outer);
}
