/** Programs that several processes use under one key, such as a language server. */

import { realClock, type Timer } from "../lib/clock.ts";
import type { RunningChild } from "./running-child.ts";

interface Shared {
  child: RunningChild;
  idleMs: number;
  users: Set<string>;
  idle: Timer | undefined;
}

/** A use ends with its tool call, or with its process outside a call. A program without users ends after its idle time. */
export class SharedChildren {
  readonly #byKey = new Map<string, Shared>();

  /** Returns the running program of this key and adds this user. */
  use(key: string, idleMs: number, user: { uuid: string; call?: string }): RunningChild | undefined {
    const shared = this.#byKey.get(key);
    if (!shared?.child.stays) return undefined;
    shared.idle?.cancel();
    shared.idle = undefined;
    shared.idleMs = idleMs;
    shared.users.add(userKey(user.uuid, user.call));
    return shared.child;
  }

  add(key: string, idleMs: number, user: { uuid: string; call?: string }, child: RunningChild): void {
    const shared: Shared = {
      child,
      idleMs,
      users: new Set([userKey(user.uuid, user.call)]),
      idle: undefined,
    };
    this.#byKey.set(key, shared);
    void child.gone.then(() => {
      shared.idle?.cancel();
      if (this.#byKey.get(key) === shared) this.#byKey.delete(key);
    });
  }

  /** Ends the uses of one call; without `call`, all uses of a process. */
  leave(uuid: string, call?: string): void {
    for (const shared of this.#byKey.values()) {
      const left = [...shared.users].filter((user) =>
        call === undefined ? user.startsWith(userKey(uuid)) : user === userKey(uuid, call),
      );
      for (const user of left) shared.users.delete(user);
      if (left.length > 0 && shared.users.size === 0) this.#idle(shared);
    }
  }

  #idle(shared: Shared): void {
    shared.idle = realClock.timer(shared.idleMs, () => void shared.child.end());
  }
}

function userKey(uuid: string, call = ""): string {
  return `${uuid} ${call}`;
}
