/** Reads the requests that are written to the devices of memory. */

import { SyscallError } from "rnix/plugin";
import { jsonObject } from "../_lib/json.ts";

/** The fields of a request, checked one by one: a person may write any bytes to a device. */
export class Request {
  readonly #fields: Record<string, unknown>;
  readonly #device: string;

  constructor(device: string, text: string) {
    this.#device = device;
    this.#fields = jsonObject(device, text);
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

  oneOf<T extends string>(name: string, values: readonly T[]): T {
    const value = this.#fields[name];
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
