/** Sketches a plugin's export as plain data. */

/**
 * A sketch of a plugin's export as plain data, so that its shape can be checked across a process's border. Functions
 * become FUNCTION; other values that can't cross become a description.
 */
export function sketch(value: unknown): unknown {
  return draw(value, new Set());
}

/** Stands for a function. */
export const FUNCTION = "[function]";

/** The methods of the contract. A plugin or device written as a class has them on its prototype. */
const METHODS = "factory detect dispose open prompt filesChanged unmount onChange onEnd".split(" ");
const DEEPEST = 64;

function draw(value: unknown, above: Set<object>): unknown {
  if (typeof value === "function") return FUNCTION;
  if (typeof value === "symbol" || typeof value === "bigint") return `[${typeof value}]`;
  if (typeof value !== "object" || value === null) return value;
  if (above.has(value)) return "[circular]";
  if (above.size >= DEEPEST) return "[too deep]";
  above.add(value);
  const drawn = Array.isArray(value) ? value.map((item) => draw(item, above)) : drawObject(value, above);
  above.delete(value);
  return drawn;
}

function drawObject(value: object, above: Set<object>): object {
  const drawn: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) if (item !== undefined) drawn[key] = draw(item, above);
  for (const method of METHODS) {
    if (typeof Reflect.get(value, method) === "function") drawn[method] = FUNCTION;
  }
  return drawn;
}
