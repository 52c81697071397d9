import { type Child, type OpenContext, SyscallError } from "../index.ts";
import type { Answer, ContextEvent, ServiceAnswers, ServiceCall } from "./wire.ts";

interface HeldChild {
  child: Child;
  file: number;
  /** Ends with its call: the handle is let go when the file is closed. */
  ofCall: boolean;
}

/** The files and mounts open in one Worker, by number: whose they are, and the services they may ask for. */
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

  /** The same for a mount, with which all its programs end. */
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

  emit(file: number, note: ContextEvent): void {
    const context = this.#contexts.get(file);
    if (!context) return;
    if (note.n === "progress") context.progress(note.text);
    else if (note.n === "changed") context.changed(note.file);
    else context.log(note.level, note.text);
  }

  /** Does what a driver asks for, in the name of the process that opened the file. CLOSED after its close. */
  async serve(file: number, call: ServiceCall): Promise<Answer<ServiceAnswers, ServiceCall["m"]>> {
    switch (call.m) {
      case "child.write":
        return this.#child(call.child).write(call.data);
      case "child.end":
        return this.#child(call.child).end();
      case "child.read":
        return this.#child(call.child).read();
      case "child.exited":
        return this.#child(call.child).exited();
      case "child.kill":
        return this.#child(call.child).kill();
    }
    const context = this.#context(file);
    switch (call.m) {
      case "exec":
        return this.#hold(
          file,
          await offered(context.exec, "exec")(call.request),
          call.request.life === "call",
        );
      case "store.read":
        return offered(context.store, "store").read(call.scope, call.doc);
      case "store.replace":
        return offered(context.store, "store").replace(call.scope, call.doc, call.text, call.ifVersion);
      case "store.append":
        return offered(context.store, "store").append(call.scope, call.log, call.line);
      case "store.lines":
        return offered(context.store, "store").lines(call.scope, call.log, call.after, call.max);
      case "secret":
        return offered(context.secret, "secret")();
      case "tools.list":
        return offered(context.tools, "tools").list();
      case "tools.call":
        return offered(context.tools, "tools").call(call.name, call.input);
      case "history.runs":
        return offered(context.history, "history").runs(call.query);
      case "history.steps":
        return offered(context.history, "history").steps(call.uuid, call.after, call.max);
      case "spill":
        return context.spill(call.name, call.data);
      case "inbox":
        return context.inbox(call.text);
      case "access":
        return context.access(call.paths, call.also);
    }
  }

  #context(file: number): OpenContext {
    const context = this.#contexts.get(file);
    if (!context) throw new SyscallError("CLOSED", "The file is closed, and its services with it.");
    return context;
  }

  #hold(file: number, child: Child, ofCall: boolean): Answer<ServiceAnswers, "exec"> {
    const id = ++this.#lastId;
    this.#children.set(id, { child, file, ofCall });
    return { child: id, pid: child.pid, reused: child.reused };
  }

  #child(id: number): Child {
    const held = this.#children.get(id);
    if (!held) throw new SyscallError("CLOSED", "The call that started this program has ended.");
    return held.child;
  }
}

function offered<T>(service: T | undefined, name: string): T {
  if (service === undefined) {
    throw new SyscallError(
      "UNAVAILABLE",
      `The service ${name} is not there: name it in the plugin's \`needs\`.`,
    );
  }
  return service;
}
