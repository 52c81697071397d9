/** Which addresses a request may reach: public ones, and those that the settings name. */

import { lookup } from "node:dns/promises";
import ipaddr from "ipaddr.js";
import { SyscallError } from "rnix/plugin";

/** Resolves a name to all of its addresses. */
export type Resolve = (name: string) => Promise<string[]>;

export const systemResolve: Resolve = async (name) =>
  (await lookup(name, { all: true, verbatim: true })).map(({ address }) => address);

/**
 * The addresses of a host, each checked: a request goes to one of them and never resolves the name again. One address
 * that is not allowed refuses the host, so that no choice among several decides. `listed` has addresses and CIDR ranges.
 */
export async function checkedAddresses(
  host: string,
  listed: readonly string[],
  resolve: Resolve,
): Promise<string[]> {
  const bare = host.replace(/^\[|\]$/g, "");
  const found = ipaddr.isValid(bare) ? [bare] : await resolved(bare, resolve);
  const ranges = listed.map(rangeOf);
  for (const address of found)
    if (!isPublic(address) && !ranges.some((range) => contains(range, address))) throw refused(host, address);
  return found;
}

/** Whether the settings list one of the addresses: such a server is the user's own. */
export function isListed(addresses: readonly string[], listed: readonly string[]): boolean {
  const ranges = listed.map(rangeOf);
  return addresses.some((address) => ranges.some((range) => contains(range, address)));
}

/** Global unicast: what the registries of IANA reserve for any other use is refused, mapped and translated forms too. */
function isPublic(address: string): boolean {
  const parsed = ipaddr.process(address);
  if (parsed.range() !== "unicast") return false;
  // Only 2000::/3 of IPv6 is assigned to the public network.
  return parsed.kind() === "ipv4" || contains(rangeOf("2000::/3"), address);
}

type Range = ReturnType<typeof ipaddr.parseCIDR>;

function rangeOf(text: string): Range {
  try {
    if (text.includes("/")) return ipaddr.parseCIDR(text);
    const address = ipaddr.process(text);
    return [address, address.kind() === "ipv4" ? 32 : 128];
  } catch (cause) {
    const message = `plugins.web.addresses: expected an address or a range such as 10.0.0.0/8, got "${text}".`;
    throw new SyscallError("INVALID", message, { cause });
  }
}

function contains([base, bits]: Range, address: string): boolean {
  const parsed = ipaddr.process(address);
  return parsed.kind() === base.kind() && parsed.match(base, bits);
}

async function resolved(name: string, resolve: Resolve): Promise<string[]> {
  try {
    const found = await resolve(name);
    if (found.length > 0) return found;
  } catch (cause) {
    const message = `${name} has no address. Check the host's name and the network.`;
    throw new SyscallError("NOT_FOUND", message, { cause });
  }
  throw new SyscallError("NOT_FOUND", `${name} has no address.`);
}

function refused(host: string, address: string): SyscallError {
  const of = host === address ? `${address} is` : `${host} has the address ${address}, which is`;
  const message = `${of} not public. Only the user can allow it: plugins: {web: {addresses: ["${address}"]}} in ~/.config/rnix/config.yaml.`;
  return new SyscallError("PERMISSION", message);
}
