/** The open files and mounts of a Worker, as the kernel's thread sees them. */

import { type Child, type OpenContext, SyscallError } from "../index.ts";
import type { Answer, ContextEvent, ServiceAnswers, ServiceCall } from "./wire.ts";

interface HeldChild {
  child: Child;
  file: number;
  /** The program ends with its call, so its handle is dropped when the file is closed. */
  ofCall: boolean;
}

/** The open files and mounts of one Worker, by number, with their contexts and services. */
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
      case "store.path":
        return offered(context.store, "store").path(call.scope, call.doc);
      case "store.lines":
        return offered(context.store, "store").lines(call.scope, call.log, call.after, call.max);
      case "secret":
        return offered(context.secret, "secret")(call.name);
      case "tools.list":
        return offered(context.tools, "tools").list();
      case "tools.call":
        return offered(context.tools, "tools").call(call.name, call.input);
      case "history.runs":
        return offered(context.history, "history").runs(call.query);
      case "history.steps":
        return offered(context.history, "history").steps(call.uuid, call.after, call.max);
      case "search.sources":
        return offered(context.search, "search").sources(call.scope, call.collection);
      case "search.put":
        return offered(context.search, "search").put(
          call.scope,
          call.collection,
          call.source,
          call.version,
          call.documents,
        );
      case "search.find":
        return offered(context.search, "search").find(call.query);
      case "schedule.add":
        return offered(context.schedule, "schedule").add(call.job);
      case "schedule.list":
        return offered(context.schedule, "schedule").list(call.query);
      case "schedule.change":
        return offered(context.schedule, "schedule")[call.what](call.name);
      case "schedule.run":
        return offered(context.schedule, "schedule").run(call.name);
      case "schedule.history":
        return offered(context.schedule, "schedule").history(call.query);
      case "schedule.next":
        return offered(context.schedule, "schedule").next(call.query);
      case "ask":
        return offered(context.ask, "ask").ask(call.questions);
      case "llm":
        return offered(context.llm, "llm").ask(call.request);
      case "spill":
        return context.spill(call.name, call.data);
      case "inbox":
        return context.inbox(call.text);
      case "changing":
        return context.changing(call.file);
      case "access":
        return context.access(call.paths, call.also);
    }
  }

  #context(file: number): OpenContext {
    const context = this.#contexts.get(file);
    if (!context) throw new SyscallError("CLOSED", "The file is closed, so its services have ended.");
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
      `The service ${name} is not available: name it in the plugin's \`needs\`.`,
    );
  }
  return service;
}
