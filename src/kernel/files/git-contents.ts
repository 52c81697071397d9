/** Reads the output of `git cat-file --batch`: contents by name. */

/** Parses `<oid> blob <size>\n<content>\n…`. */
export function* parseBatch(output: Buffer): Generator<[string, Uint8Array]> {
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf(10, at);
    if (end < 0) return;
    const [, oid, size] = /^([0-9a-f]+) blob (\d+)$/.exec(output.toString("latin1", at, end)) ?? [];
    at = end + 1;
    if (oid === undefined) continue;
    const content = output.subarray(at, at + Number(size));
    if (content.length < Number(size)) return;
    yield [oid, content];
    at += Number(size) + 1;
  }
}
