/** A name of an MCP server's tool or prompt as a segment of a path. */

/** Characters that a path can't hold become "_". */
export function pathSegmentOf(name: string): string {
  const segment = name.replaceAll(/[^A-Za-z0-9._-]/g, "_");
  return /^\.+$/.test(segment) ? `_${segment}` : segment;
}
