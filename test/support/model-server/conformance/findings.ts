/** What one look at one driver has shown, by the table's column. */
type Seen = Readonly<Record<string, string>>;

/** What a conformance run has found out, as a table: a row for each thing tried, a column for each driver. */
export class Findings {
  /** Row by row: driver by driver: what was seen, and in which looks. */
  readonly #rows = new Map<string, Map<string, { seen: Seen; looks: Set<string> }>>();

  /** `look`: how it was looked at ("streamed", "in one piece", "a run"), one after the other. */
  note(row: string, driver: string, look: string, seen: Seen = {}): void {
    const found = this.#rows.get(row) ?? new Map();
    const before = found.get(driver) ?? { seen: {}, looks: new Set() };
    found.set(driver, { seen: { ...before.seen, ...seen }, looks: before.looks.add(look) });
    this.#rows.set(row, found);
  }

  /** The protocol of this driver does not have it. */
  without(row: string, driver: string): void {
    this.note(row, driver, NOTHING);
  }

  /** As Markdown, with a column for each driver. A tick: every look that some driver of this row was given has shown what is expected. */
  table(
    title: string,
    rows: readonly string[],
    drivers: readonly string[],
    columns: readonly string[] = [],
  ): string {
    const lines = rows.map((row) => [
      row,
      ...columns.map((column) => this.#observed(row, column)),
      ...drivers.map((driver) => this.#tick(row, driver)),
    ]);
    const head = [title, ...columns, ...drivers];
    return [head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  }

  /** One word where all drivers agree, else what each has shown. */
  #observed(row: string, column: string): string {
    const by = new Map<string, string[]>();
    for (const [driver, { seen, looks }] of this.#rows.get(row) ?? []) {
      if (looks.has(NOTHING)) continue;
      const value = seen[column] ?? "";
      by.set(value, [...(by.get(value) ?? []), driver]);
    }
    if (by.size === 1) return [...by.keys()].join("");
    return [...by].map(([value, drivers]) => `${value} (${drivers.join(", ")})`).join("; ");
  }

  #tick(row: string, driver: string): string {
    const found = this.#rows.get(row);
    const looks = found?.get(driver)?.looks ?? new Set();
    if (looks.has(NOTHING)) return "–";
    const wanted = new Set([...(found?.values() ?? [])].flatMap((one) => [...one.looks]));
    wanted.delete(NOTHING);
    return wanted.size > 0 && [...wanted].every((look) => looks.has(look)) ? "✓" : "✗";
  }
}

const NOTHING = "nothing";
