/** The open files and mounts of a process, as the kernel's thread sees them. */

import { type Child, type OpenContext, SyscallError } from "../index.ts";
import {
  type Answer,
  type ContextEvent,
  REMOTE_METHODS,
  type RemoteOwner,
  type ServiceAnswers,
  type ServiceCall,
} from "./wire.ts";

interface HeldChild {
  child: Child;
  file: number;
  /** The program ends with its call, so its handle is dropped when the file is closed. */
  ofCall: boolean;
}

/** The open files and mounts of one process, by number, with their contexts and services. */
export class OpenFiles {
  readonly #contexts = new Map<number, OpenContext>();
  readonly #children = new Map<number, HeldChild>();
  #lastId = 0;

  add(context: OpenContext): number {
    this.#contexts.set(++this.#lastId, context);
    return this.#lastId;
  }

  drop(file: number): void {
    this.#contexts.delete(file);
    for (const [id, held] of this.#children) if (held.file === file && held.ofCall) this.#children.delete(id);
  }

  /** Drops a mount and the handles of all its programs. */
  dropMount(mount: number): void {
    this.#contexts.delete(mount);
    for (const [id, held] of this.#children) if (held.file === mount) this.#children.delete(id);
  }

  clear(): void {
    this.#contexts.clear();
    this.#children.clear();
  }

  get size(): number {
    return this.#contexts.size;
  }

  emit(file: number, event: ContextEvent): void {
    const context = this.#contexts.get(file);
    if (!context) return;
    if (event.n === "progress") context.progress(event.text);
    else if (event.n === "output") context.output(event.text, event.skipped);
    else if (event.n === "checklist") context.checklist(event.items);
    else if (event.n === "changed") context.changed(event.file);
    else context.log(event.level, event.text);
  }

  /** Runs a service call of a driver for the process that opened the file. Fails with CLOSED after its close. */
  async serve(file: number, call: ServiceCall): Promise<Answer<ServiceAnswers, ServiceCall["m"]>> {
    if (call.m === "exec") {
      const { request } = call;
      const child = await offered(this.#context(file).exec, "exec")(request);
      const id = ++this.#lastId;
      this.#children.set(id, { child, file, ofCall: request.life === "call" });
      return { child: id, pid: child.pid, reused: child.reused };
    }
    const { of, method, args, child = 0 } = call;
    if (of === "child") {
      const held = this.#children.get(child);
      if (!held) throw new SyscallError("CLOSED", "The call that started this program has ended.");
      return invoke(held.child, of, method, args);
    }
    const context = this.#context(file);
    return invoke(of === "context" ? context : offered(context[of], of), of, method, args);
  }

  #context(file: number): OpenContext {
    const context = this.#contexts.get(file);
    if (!context) throw new SyscallError("CLOSED", "The file is closed, so its services have ended.");
    return context;
  }
}

/** Calls a method that a driver may call. */
function invoke(owner: object, of: RemoteOwner, method: string, args: unknown[]): unknown {
  if (!Object.hasOwn(REMOTE_METHODS[of], method)) {
    throw new SyscallError("INVALID", `${of} has no method ${method}.`);
  }
  return Reflect.apply(offered(Reflect.get(owner, method), method), owner, args);
}

function offered<T>(service: T | undefined, name: string): T {
  if (service === undefined) {
    const message = `The service ${name} is not available: name it in the plugin's \`needs\`.`;
    throw new SyscallError("UNAVAILABLE", message);
  }
  return service;
}
