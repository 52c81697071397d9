/** Recognizes binary files by their first bytes. */

/** Bytes at a file's start that decide whether it is text. */
const PROBE_BYTES = 8_192;

/** The kind of a binary file by its first bytes; undefined for text. */
export function binaryKind(start: Uint8Array): string | undefined {
  const head = Buffer.from(start.buffer, start.byteOffset, Math.min(start.length, PROBE_BYTES));
  const latin = head.toString("latin1", 0, 16);
  for (const [kind, magic] of MAGIC) if (latin.startsWith(magic)) return kind;
  if (latin.startsWith("RIFF") && latin.slice(8, 12) === "WEBP") return "WebP image";
  return head.includes(0) ? "unknown kind" : undefined;
}

const MAGIC: readonly [string, string][] = [
  ["PNG image", "\x89PNG"],
  ["JPEG image", "\xff\xd8\xff"],
  ["GIF image", "GIF8"],
  ["PDF document", "%PDF-"],
  ["ZIP archive (also jar, docx, xlsx)", "PK\x03\x04"],
  ["gzip archive", "\x1f\x8b"],
  ["xz archive", "\xfd7zXZ\0"],
  ["Zstandard archive", "\x28\xb5\x2f\xfd"],
  ["7z archive", "7z\xbc\xaf\x27\x1c"],
  ["ELF program", "\x7fELF"],
  ["Mach-O program", "\xcf\xfa\xed\xfe"],
  ["WebAssembly module", "\0asm"],
  ["SQLite database", "SQLite format 3\0"],
  ["UTF-16 text; `iconv -f UTF-16 -t UTF-8` makes it readable", "\xff\xfe"],
  ["UTF-16 text; `iconv -f UTF-16 -t UTF-8` makes it readable", "\xfe\xff"],
];
