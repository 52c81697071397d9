/** Reads the requests that are written to the devices of memory. */

import { type Data, SyscallError } from "rnix/plugin";
import { isObject } from "../_lib/is-object.ts";

/** The fields of a request, checked one by one: a person may write any bytes to a device. */
export class Request {
  readonly #fields: Record<string, unknown>;
  readonly #device: string;

  constructor(device: string, data: Data) {
    this.#device = device;
    this.#fields = fieldsOf(device, typeof data === "string" ? data : new TextDecoder().decode(data));
  }

  text(name: string): string | undefined {
    const value = this.#fields[name] ?? undefined;
    if (value === undefined || typeof value === "string") return value;
    throw this.#wrong(name, "a text", value);
  }

  needed(name: string, what: string): string {
    const value = this.text(name);
    if (value !== undefined && value.trim() !== "") return value;
    throw new SyscallError("INVALID", `${this.#device}: ${name} is missing: ${what}.`);
  }

  oneOf<T extends string>(name: string, values: readonly T[], byDefault?: T): T {
    const value = this.#fields[name] ?? byDefault;
    const found = values.find((one) => one === value);
    if (found !== undefined) return found;
    throw this.#wrong(name, `one of ${values.join(", ")}`, value);
  }

  flag(name: string): boolean {
    const value = this.#fields[name] ?? false;
    if (typeof value === "boolean") return value;
    throw this.#wrong(name, "true or false", value);
  }

  count(name: string, byDefault: number, most: number): number {
    const value = this.#fields[name] ?? byDefault;
    if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= most) return value;
    throw this.#wrong(name, `a number from 1 to ${most}`, value);
  }

  #wrong(name: string, expected: string, value: unknown): SyscallError {
    const got = value === undefined ? "nothing" : (JSON.stringify(value) ?? "nothing").slice(0, 100);
    return new SyscallError("INVALID", `${this.#device}: ${name}: expected ${expected}, got ${got}.`);
  }
}

function fieldsOf(device: string, text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // Answered below.
  }
  throw new SyscallError("INVALID", `${device}: expected a JSON object, got ${text.slice(0, 100)}`);
}
