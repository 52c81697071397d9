/** What lets a client in: the password of a dashboard that others than this machine reach, and the token of /metrics. */

import { timingSafeEqual } from "node:crypto";
import { statSync } from "node:fs";
import { readText, writeAtomic } from "../../config/files/file.ts";
import type { Clock } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";

/** The variable in `~/.config/rnix/env`. */
const VARIABLE = "RNIX_DASHBOARD_PASSWORD";
const MIN_LENGTH = 12;
/** Wrong passwords in a minute; then all wait, so that none is found by trying. */
const MAX_WRONG = 10;
const WINDOW_MS = 60_000;

/** Checks the password of the user's file as it is now. */
export class Password {
  readonly #env: () => Readonly<Record<string, string>>;
  readonly #clock: Clock;
  #wrong: number[] = [];

  constructor(env: () => Readonly<Record<string, string>>, clock: Clock) {
    this.#env = env;
    this.#clock = clock;
  }

  /** Fails with INVALID if the file has no password, or one that is too short. */
  require(): string {
    const password = this.#env()[VARIABLE] ?? "";
    if (password.length >= MIN_LENGTH) return password;
    const message = `A dashboard that others reach needs a password of at least ${MIN_LENGTH} characters. Write ${VARIABLE}=… into ~/.config/rnix/env (chmod 600), then try again.`;
    throw new SyscallError("INVALID", message);
  }

  /** undefined: it is right. Else why the sign-in is refused. */
  refusal(given: string): { status: number; why: string } | undefined {
    const now = this.#clock.now();
    this.#wrong = this.#wrong.filter((at) => at > now - WINDOW_MS);
    if (this.#wrong.length >= MAX_WRONG)
      return { status: 429, why: "Too many wrong passwords. Try again in a minute." };
    if (isSame(this.require(), given)) return undefined;
    this.#wrong.push(now);
    return { status: 401, why: "The password is wrong." };
  }
}

/** The form that asks for it. It needs no script and no style, which only the signed-in page may load. */
export function signInForm(why = ""): string {
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>rnix</title>
<main><h1>rnix</h1><form method="post" action="/sign-in"><p role="alert">${why}</p>
<p><label>Password of the dashboard<br><input type="password" name="password" autocomplete="current-password" required autofocus></label></p>
<p><button>Sign in</button></p></form></main></html>
`;
}

/** 256 random bits, for an address or a cookie. */
export function secret(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
}

/** Compares in constant time, so that the duration reveals nothing about either text. */
export function isSame(known: string, given: string): boolean {
  const [a, b] = [known, given].map((text) => new Bun.CryptoHasher("sha256").update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}

/** A token that others could read, or that is damaged, is replaced. */
const TOKEN = /^[\w-]{43}$/;
const MODE_OF_OTHERS = 0o077;

/** Reads /metrics, and nothing else, until it is replaced. */
export class MetricsToken {
  readonly #file: string;
  #token: string | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  /** Makes one at its first use. Fails if it can't be stored. */
  get(): string {
    this.#token ??= this.#stored() ?? this.replace();
    return this.#token;
  }

  /** Makes another one: the one before is refused from now on. */
  replace(): string {
    const token = secret();
    writeAtomic(this.#file, token);
    this.#token = token;
    return token;
  }

  /** The token, if one was made. */
  get known(): string | undefined {
    this.#token ??= this.#stored();
    return this.#token;
  }

  #stored(): string | undefined {
    const text = readText(this.#file)?.trim() ?? "";
    if (!TOKEN.test(text)) return undefined;
    return (statSync(this.#file).mode & MODE_OF_OTHERS) === 0 ? text : undefined;
  }
}
