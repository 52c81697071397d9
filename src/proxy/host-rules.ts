/** The hosts that the network of a run may reach: reads their list, and decides about a connection. */

import { SyscallError } from "../plugin/index.ts";
import type { Resolve } from "./addresses.ts";

/** A connection may be made, to one of these addresses and no other; or why not, and the entry that would allow it. */
export type Decision =
  | { allowed: true; rule: string; addresses: string[] }
  | { allowed: false; why: string; entry: string };

export interface HostRules {
  decide(host: string, port: number): Promise<Decision>;
}

interface Entry {
  /** As the user wrote it. */
  text: string;
  host: string;
  /** null: every port. */
  port: number | null;
  /** The host is an address, or a range of them. */
  isAddress: boolean;
}

const OFF = "off";
const ON = "on";
const ANY = "*";
const NAME = /^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/;

/** Whether the values of the option `network` limit it. Fails with INVALID for what is no host. */
export function isLimited<Network extends readonly string[]>(
  network: Network | undefined,
): network is Network {
  const values = split(network ?? []);
  if (values.length === 0) return false;
  const word = values.find((value) => value === ON || value === OFF);
  if (word !== undefined && values.length > 1)
    throw new SyscallError("INVALID", `network: "${word}" stands alone, got ${values.join(", ")}.`);
  if (word === undefined) values.forEach(entryOf);
  return word !== ON;
}

/** Whether a list names all hosts that may be reached. */
export function deniesByDefault(network: readonly string[] | undefined): boolean {
  return isLimited(network) && entriesOf(network).every(({ host }) => host !== ANY);
}

/** Whether one of these entries names the port of the host. An entry without a port means `port`. */
export function namesHost(entries: readonly string[], host: string, at: number, port: number): boolean {
  return entriesOf(entries).some(
    (entry) => (entry.port ?? port) === at && matches(entry.host, host.toLowerCase().replace(/\.$/, "")),
  );
}

/** What a child may reach: nothing that its parent may not. */
export function withinParent(parent: string[] | undefined, own: string[] | undefined): string[] | undefined {
  if (!isLimited(parent)) return own;
  if (!isLimited(own)) return parent;
  const [above, below] = [entriesOf(parent), entriesOf(own)];
  const common = [
    ...below.filter((entry) => above.some((one) => covers(one, entry))),
    ...above.filter((entry) => below.some((one) => covers(one, entry))),
  ];
  return common.length === 0 ? [OFF] : [...new Set(common.map(({ text }) => text))];
}

/** The rules of the option's values, which limit the network. */
export async function hostRules(network: readonly string[], resolve: Resolve): Promise<HostRules> {
  const { addressList, hostAddresses } = await import("./addresses.ts");
  const entries = entriesOf(network);
  const names = entries.filter(({ isAddress }) => !isAddress);
  const ranges = await Promise.all(
    entries
      .filter(({ isAddress }) => isAddress)
      .map(async (entry) => ({ entry, list: await addressList([entry.host], "network") })),
  );
  const { isPublic } = await addressList([], "network");
  const listing = (address: string, port: number): Entry | undefined =>
    ranges.find(({ entry, list }) => fits(entry.port, port) && list.contains(address))?.entry;

  return {
    async decide(given, port) {
      const host = given.toLowerCase().replace(/\.$/, "");
      const named = names.find((entry) => fits(entry.port, port) && matches(entry.host, host));
      const literal = isAddress(host);
      const any = (entry: Entry): boolean => entry.host === ANY && fits(entry.port, port);
      const rule = literal ? (listing(host, port) ?? (isPublic(host) ? names.find(any) : undefined)) : named;
      if (rule === undefined) return { allowed: false, why: "it is not listed", entry: host };
      const addresses = await hostAddresses(host, resolve);
      const hidden = literal ? undefined : addresses.find((one) => !isPublic(one) && !listing(one, port));
      if (hidden === undefined) return { allowed: true, rule: rule.text, addresses };
      const why = `its address ${hidden} is not public, and not listed itself`;
      return { allowed: false, why, entry: hidden };
    },
  };
}

/** The loopback ports of this machine that the list names one by one. */
export function loopbackPorts(network: readonly string[]): number[] {
  return entriesOf(network).flatMap(({ host, port }) =>
    port !== null && ["127.0.0.1", "localhost"].includes(host) ? [port] : [],
  );
}

/** Without node:net, which each command would load. */
function isAddress(text: string): boolean {
  return (
    /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/.test(text) ||
    /^[\da-f]*:[\da-f:]*:[\da-f:.]*$/.test(text)
  );
}

function split(values: readonly string[]): string[] {
  return values.flatMap((value) => value.split(",")).map((value) => value.trim());
}

function entriesOf(network: readonly string[]): Entry[] {
  return split(network)
    .filter((value) => value !== OFF)
    .map(entryOf);
}

function entryOf(text: string): Entry {
  const [, bracketed, name = "", digits] = /^(?:\[([^\]]+)\]|(.*?))(?::(\d+))?$/.exec(text) ?? [];
  // An address of IPv6 without brackets has no port.
  const [host, port] =
    (text.match(/:/g)?.length ?? 0) > 1 && !text.startsWith("[")
      ? [text, null]
      : [bracketed ?? name, digits ? Number(digits) : null];
  const lower = host.toLowerCase().replace(/\.$/, "");
  const literal = isAddress(lower.replace(/\/\d{1,3}$/, ""));
  const isKnown = literal || lower === ANY || (NAME.test(lower) && !/^[\d.]+$/.test(lower));
  if (isKnown && (port === null || (port > 0 && port < 65_536)))
    return { text, host: lower, port, isAddress: literal };
  const message = `network: expected on, off, or hosts such as example.com, *.example.com, example.com:443 or 127.0.0.1:5432, got ${JSON.stringify(text)}.`;
  throw new SyscallError("INVALID", message);
}

function fits(rule: number | null, port: number | null): boolean {
  return rule === null || rule === port;
}

function matches(pattern: string, host: string): boolean {
  if (pattern === ANY || pattern === host) return true;
  return pattern.startsWith("*.") && host.endsWith(pattern.slice(1));
}

/** Whether each connection that the second entry allows is one that the first allows. */
function covers(wide: Entry, narrow: Entry): boolean {
  if (!fits(wide.port, narrow.port)) return false;
  return (
    wide.host === narrow.host || (!wide.isAddress && !narrow.isAddress && matches(wide.host, narrow.host))
  );
}
