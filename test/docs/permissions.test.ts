import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectKeyRows } from "../../src/config/trust/project-keys.ts";

const FILE = join(import.meta.dir, "../../docs/permissions.md");
const BETWEEN = /(<!-- project-keys -->\n)[\s\S]*?(<!-- \/project-keys -->)/;

/** With UPDATE_DOCS=1 the table is written instead of compared. */
test("the table of project keys in docs/permissions.md is the one in the code", () => {
  const document = readFileSync(FILE, "utf8");
  const expected = document.replace(
    BETWEEN,
    (_all, head: string, foot: string) => `${head}${table()}${foot}`,
  );
  expect(document).toMatch(BETWEEN);
  if (process.env.UPDATE_DOCS) writeFileSync(FILE, expected);
  else expect(document, "UPDATE_DOCS=1 writes the table").toBe(expected);
});

/** Keys of one file with the same text share one row. */
function table(): string {
  const rows = new Map<string, { file: string; keys: string[]; rest: string }>();
  for (const { file, key, class: kind, until } of projectKeyRows()) {
    const rest = `${kind} | ${until}`;
    const row = rows.get(`${file} ${rest}`) ?? { file, keys: [], rest };
    rows.set(`${file} ${rest}`, { ...row, keys: [...row.keys, `\`${key}\``] });
  }
  const lines = [...rows.values()].map(
    ({ file, keys, rest }) => `| \`${file}\` | ${keys.join(", ")} | ${rest} |`,
  );
  return ["| file | key | class | until it is trusted |", "|---|---|---|---|", ...lines, ""].join("\n");
}
