/** The background units of the chosen run, and the newest output of one of them. */

import { unitDetail } from "../../daemons/unit-line.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { DaemonSnapshot } from "../../plugin/index.ts";
import { formatSeconds, oneLine } from "../output/format.ts";
import { cutTo, type Look, plainLines } from "../terminal/look.ts";
import type { TopLink } from "./link.ts";

export class UnitPane {
  readonly #link: TopLink;
  readonly #redraw: () => void;
  #units: readonly DaemonSnapshot[] = [];
  #chosen = "";
  #output = "";
  #isReading = false;

  constructor(link: TopLink, redraw: () => void) {
    this.#link = link;
    this.#redraw = redraw;
  }

  get chosen(): DaemonSnapshot | undefined {
    return this.#units.find(({ id }) => id === this.#chosen) ?? this.#units[0];
  }

  show(units: readonly DaemonSnapshot[]): void {
    const before = this.chosen?.id;
    this.#units = units;
    if (this.chosen?.id === before) return;
    this.#output = "";
    this.read();
  }

  next(): void {
    const at = this.#units.findIndex(({ id }) => id === this.chosen?.id);
    this.#chosen = this.#units[(at + 1) % this.#units.length]?.id ?? "";
    this.#output = "";
    this.read();
  }

  read(): void {
    const id = this.chosen?.id;
    if (id === undefined || this.#isReading) return;
    this.#isReading = true;
    const done = (text: string): void => {
      this.#isReading = false;
      if (this.chosen?.id !== id) this.read();
      else if (text !== this.#output) {
        this.#output = text;
        this.#redraw();
      }
    };
    this.#link.request("unit_output", { id }).then(
      ({ text }) => done(text),
      (error: unknown) => done(messageOf(error)),
    );
  }

  lines(rows: number, columns: number, now: number, look: Look): string[] {
    const { chosen } = this;
    if (chosen === undefined) return [look.dim("nothing runs beside it in the background")];
    const at = this.#units.indexOf(chosen);
    const room = Math.max(1, Math.floor(rows / 2));
    const first = Math.max(0, Math.min(at - room + 1, this.#units.length - room));
    const list = this.#units.slice(first, first + room).map((unit) => {
      const time = formatSeconds(now - Date.parse(unit.started_at));
      const { id, kind, status, description } = unit;
      const text = oneLine(
        `${id}  ${kind}  ${status}${unitDetail(unit)}  ${time}  ${description}`,
        columns - 2,
      );
      return unit === chosen ? look.cyan(`${look.glyph.prompt} ${text}`) : `  ${text}`;
    });
    const output = this.#output === "" ? [] : plainLines(this.#output).slice(list.length - rows);
    return [...list, ...output.map((line) => look.dim(cutTo(`  ${line}`, columns, look)))];
  }
}
