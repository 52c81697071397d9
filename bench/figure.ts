/** One line of the table. */
export interface Figure {
  what: string;
  value: number;
  /** "/s" and "MiB/s" are rates: the more the better. */
  unit: "ms" | "µs" | "bytes" | "MiB" | "KiB" | "/s" | "MiB/s" | "×" | "%" | "runs";
  /** What the same costs without Rnix, measured in turns with it. */
  floor?: { name: string; value: number };
  /** Of the ratio to the floor, or of the value where there is no floor: what it must not be above. */
  goal?: number;
}

type Compared = Pick<Figure, "floor" | "goal">;

export function time(what: string, value: number, compared: Compared = {}): Figure {
  return { what, value, unit: "ms", ...compared };
}

/** Memory, of bytes. */
export function memory(what: string, bytes: number, compared: Compared = {}): Figure {
  return { what, value: mib(bytes), unit: "MiB", ...compared };
}

/** How many times the cost of the floor. */
export function ratioOf({ value, floor, unit }: Figure): number | undefined {
  if (floor === undefined) return undefined;
  return isRate(unit) ? floor.value / value : value / floor.value;
}

/** undefined: there is no goal. */
export function isReached(figure: Figure): boolean | undefined {
  if (figure.goal === undefined) return undefined;
  return (ratioOf(figure) ?? figure.value) <= figure.goal;
}

export function table(figures: readonly Figure[]): string {
  const lines = figures.map((figure) => {
    const { what, value, unit, floor, goal } = figure;
    const ratio = ratioOf(figure);
    const cells = [
      what,
      number(value, unit),
      floor === undefined ? "" : `${number(floor.value, unit)} (${floor.name})`,
      ratio === undefined ? "" : `${ratio.toFixed(2)}×`,
      goal === undefined ? "" : ratio === undefined ? `≤ ${goal.toLocaleString("en")} ${unit}` : `≤ ${goal}×`,
      { true: "yes", false: "**no**", undefined: "" }[`${isReached(figure)}`],
    ];
    return `| ${cells.join(" | ")} |\n`;
  });
  return `| what | Rnix | floor | ratio | goal | reached |\n|---|--:|--:|--:|--:|---|\n${lines.join("")}`;
}

export function kib(bytes: number): number {
  return bytes / 1024;
}

export function mib(bytes: number): number {
  return bytes / 1024 / 1024;
}

function number(value: number, unit: Figure["unit"]): string {
  if (isRate(unit) || unit === "bytes") return `${Math.round(value).toLocaleString("en")} ${unit}`;
  return `${value.toFixed(unit === "×" || unit === "µs" ? 2 : 1)} ${unit}`;
}

function isRate(unit: Figure["unit"]): boolean {
  return unit.endsWith("/s");
}
