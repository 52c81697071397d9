/** Reads what a client asks of the proxy: plain HTTP, HTTP CONNECT or SOCKS5. */

import type { Socket } from "node:net";
import type { SocketReader } from "./socket-reader.ts";

export interface ProxyRequest {
  host: string;
  port: number;
  /** What the server gets first: the head of a plain HTTP request. Absent: a tunnel. */
  head?: string;
  accept(): void;
  /** `status` is of HTTP; SOCKS has a code for each. */
  refuse(status: 400 | 403 | 502, text: string): void;
}

const MAX_HEAD = 32 * 1024;
const HEAD_MS = 10_000;

export async function readProxyRequest(socket: Socket, reader: SocketReader): Promise<ProxyRequest> {
  const first = await reader.take((bytes) => (bytes[0] === SOCKS ? 1 : headEnd(bytes)), MAX_HEAD, HEAD_MS);
  return first[0] === SOCKS ? readSocks(socket, reader) : readHttp(socket, first.toString("latin1"));
}

function headEnd(bytes: Buffer): number | null {
  const at = bytes.indexOf("\r\n\r\n");
  return at < 0 ? null : at + 4;
}

function readHttp(socket: Socket, head: string): ProxyRequest {
  const [line = "", ...headers] = head.trimEnd().split("\r\n");
  const [method = "", target = ""] = line.split(" ");
  const refuse: ProxyRequest["refuse"] = (status, text) => {
    const body = `${text}\n`;
    const reason = { 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway" }[status];
    const fields = `content-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close`;
    socket.end(`HTTP/1.1 ${status} ${reason}\r\nx-proxy-error: refused-by-rnix\r\n${fields}\r\n\r\n${body}`);
  };
  const isTunnel = method === "CONNECT";
  const url = URL.parse(isTunnel ? `http://${target}` : target);
  if (url === null || url.protocol !== "http:" || url.hostname === "") {
    refuse(
      400,
      `Expected CONNECT HOST:PORT or an http:// address, got ${JSON.stringify(line.slice(0, 200))}.`,
    );
    throw new Error("no request of a proxy");
  }
  const at = { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || 80), refuse };
  if (isTunnel)
    return { ...at, accept: () => void socket.write("HTTP/1.1 200 Connection established\r\n\r\n") };
  const passed = headers.filter((header) => !/^(?:host|connection|keep-alive|proxy-[^:]*)\s*:/i.test(header));
  const own = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `Host: ${url.host}`, "Connection: close"];
  return { ...at, head: `${[...own, ...passed].join("\r\n")}\r\n\r\n`, accept() {} };
}

const SOCKS = 5;
const SOCKS_CODE = { 400: 7, 403: 2, 502: 4 } as const;

/** RFC 1928, without authentication and with the command CONNECT only. */
async function readSocks(socket: Socket, reader: SocketReader): Promise<ProxyRequest> {
  const take = (length: number): Promise<Buffer> => reader.take(() => length, MAX_HEAD, HEAD_MS);
  const [methods = 0] = await take(1);
  await take(methods);
  socket.write(Buffer.from([SOCKS, 0]));
  const [, command, , kind] = await take(4);
  const reply = (code: number): Buffer => Buffer.from([SOCKS, code, 0, 1, 0, 0, 0, 0, 0, 0]);
  const host = await readSocksHost(kind, take);
  const port = (await take(2)).readUInt16BE(0);
  const refuse: ProxyRequest["refuse"] = (status) => void socket.end(reply(SOCKS_CODE[status]));
  if (command !== 1 || host === null) {
    refuse(400, "");
    throw new Error("an unknown request of SOCKS");
  }
  return { host, port, refuse, accept: () => void socket.write(reply(0)) };
}

async function readSocksHost(
  kind: number | undefined,
  take: (length: number) => Promise<Buffer>,
): Promise<string | null> {
  if (kind === 1) return (await take(4)).join(".");
  if (kind === 3) return (await take((await take(1)).readUInt8(0))).toString("latin1");
  if (kind !== 4) return null;
  const bytes = await take(16);
  return Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(at * 2).toString(16)).join(":");
}
