/** Which network addresses are public, which a list names, and the addresses of a host. */

import { SyscallError } from "../plugin/index.ts";

/** Resolves a name to all of its addresses. */
export type Resolve = (name: string) => Promise<string[]>;

export const systemResolve: Resolve = async (name) => {
  const { lookup } = await import("node:dns/promises");
  return (await lookup(name, { all: true, verbatim: true })).map(({ address }) => address);
};

export interface AddressList {
  contains(address: string): boolean;
  /** Whether it is public: global unicast. What IANA reserves for any other use is not, mapped and translated forms too. */
  isPublic(address: string): boolean;
}

/** Addresses and CIDR ranges. Fails with INVALID for an entry that is neither; `label` names their setting. */
export async function addressList(listed: readonly string[], label: string): Promise<AddressList> {
  // Loaded at its first use: most commands need no address.
  const { default: ipaddr } = await import("ipaddr.js");
  type Range = ReturnType<typeof ipaddr.parseCIDR>;
  const rangeOf = (text: string): Range => {
    try {
      if (text.includes("/")) return ipaddr.parseCIDR(text);
      const address = ipaddr.process(text);
      return [address, address.kind() === "ipv4" ? 32 : 128];
    } catch (cause) {
      const message = `${label}: expected an address or a range such as 10.0.0.0/8, got "${text}".`;
      throw new SyscallError("INVALID", message, { cause });
    }
  };
  const isIn = ([base, bits]: Range, address: string): boolean => {
    const parsed = ipaddr.process(address);
    return parsed.kind() === base.kind() && parsed.match(base, bits);
  };
  const ranges = listed.map(rangeOf);
  // Only 2000::/3 of IPv6 is assigned to the public network.
  const assigned = rangeOf("2000::/3");
  return {
    contains: (address) => ranges.some((range) => isIn(range, address)),
    isPublic(address) {
      const parsed = ipaddr.process(address);
      return parsed.range() === "unicast" && (parsed.kind() === "ipv4" || isIn(assigned, address));
    },
  };
}

/** The addresses of a host, which may be an address itself. Fails with NOT_FOUND. */
export async function hostAddresses(host: string, resolve: Resolve): Promise<string[]> {
  const { isIP } = await import("node:net");
  const bare = host.replace(/^\[|\]$/g, "");
  if (isIP(bare) !== 0) return [bare];
  try {
    const found = await resolve(bare);
    if (found.length > 0) return found;
  } catch (cause) {
    const message = `${bare} has no address. Check the host's name and the network.`;
    throw new SyscallError("NOT_FOUND", message, { cause });
  }
  throw new SyscallError("NOT_FOUND", `${bare} has no address.`);
}
