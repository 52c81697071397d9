/** Where a job delivers to, as it is written: `https://…`, `>/abs/file` (replaced), `>>/abs/file` (appended), or a command. */

export type DeliveryTarget =
  | { kind: "url"; url: string }
  | { kind: "file"; path: string; append: boolean }
  | { kind: "command"; command: string };

const FILE = /^(>>?)\s*(\/.*)$/s;

export function deliveryTarget(to: string): DeliveryTarget {
  if (/^https?:\/\//i.test(to)) return { kind: "url", url: to };
  const [, mark, path] = FILE.exec(to) ?? [];
  if (path !== undefined) return { kind: "file", path, append: mark === ">>" };
  return { kind: "command", command: to };
}
