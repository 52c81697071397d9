import { definePlugin, type OpenContext, SyscallError, type VFSFile } from "rnix/plugin";

/** A driver that calls the services its input names, and answers their results. */
export default definePlugin({
  name: "services",
  needs: ["exec", "store", "secret", "tools", "history", "search", "schedule", "ask", "llm"],
  devices: { "/dev/services": { factory: (_subpath, _flags, context) => new ServicesFile(context) } },
});

class ServicesFile implements VFSFile {
  readonly #context: OpenContext;
  #answer = "";

  constructor(context: OpenContext) {
    this.#context = context;
  }

  async write(data: string | Uint8Array, signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw new SyscallError("CANCELLED", "The call was cancelled.");
    const { op, ...input } = parsed(String(data));
    this.#answer = JSON.stringify(await run(this.#context, op, input));
  }

  async read(max: number): Promise<string> {
    const piece = this.#answer.slice(0, max);
    this.#answer = this.#answer.slice(max);
    return piece;
  }

  async close(): Promise<void> {
    this.#answer = "";
  }

  async stat() {
    return { name: "services", size: this.#answer.length, isDevice: true, devicePath: "/dev/services" };
  }
}

function parsed(text: string): { op: string; doc: string; argv: string[] } {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", "Expected an operation as JSON.", { cause });
  }
}

async function run(
  { exec, store, secret, tools, history, search, schedule, ask, llm, access }: OpenContext,
  op: string,
  input: { doc: string; argv: string[] },
): Promise<unknown> {
  if (!exec || !store || !secret || !tools || !history || !search || !schedule || !ask || !llm)
    throw new SyscallError("UNAVAILABLE", "A service that was named is not there.");
  switch (op) {
    case "exec": {
      const child = await exec({ argv: input.argv, stdin: "from stdin", life: "call" });
      const decoder = new TextDecoder();
      const streams: Record<number, string> = { 1: "", 2: "" };
      for (let piece = await child.read(); piece; piece = await child.read()) {
        streams[piece.fd] += decoder.decode(piece.data);
      }
      const { code, signal, timedOut } = await child.exited();
      return { streams, code, signal, timedOut };
    }
    case "document": {
      const first = await store.replace("run", input.doc, "one", null);
      const second = await store.replace("run", input.doc, "two", first);
      const read = await store.read("run", input.doc);
      const missing = await store.read("user", input.doc);
      return { text: read?.text, current: read?.version === second, missing };
    }
    case "stale":
      await store.replace("project", input.doc, "one", null);
      return await store.replace("project", input.doc, "two", null);
    case "log":
      for (const n of [1, 2, 3]) await store.append("user", input.doc, { n });
      return await store.lines("user", input.doc, 1, 1);
    case "tools":
      return [
        (await tools.list()).map(({ name }) => name),
        await tools.call("Echo", { text: input.doc }),
        await tools.call("Nothing", {}),
      ];
    case "no tools":
      return await tools.call("Ended", {});
    case "history":
      return [
        await history.runs({ uuid: input.doc, limit: 2 }),
        await history.runs({ parent: input.doc, limit: 3 }),
        await history.steps(input.doc, 7, 9),
      ];
    case "no history":
      return await history.steps("none", 0, 1);
    case "search":
      await search.put("project", "notes", "file", "1", [{ id: "a", text: input.doc, time_ms: 7 }]);
      return [
        await search.sources("project", "notes"),
        (await search.find({ text: input.doc, collections: ["notes"], limit: 1 })).hits,
      ];
    case "no search":
      return await search.sources("project", input.doc);
    case "schedule":
      return [await schedule.next({ expression: input.doc, count: 2 }), await schedule.list()];
    case "no schedule":
      return await schedule.remove(input.doc);
    case "ask":
      return await ask.ask([
        { question: input.doc, options: [{ label: "a", description: "b" }], default: "a" },
      ]);
    case "no ask":
      return await ask.ask([]);
    case "llm":
      return await llm.ask({ prompt: input.doc, system: "short", max_output: 5 });
    case "no llm":
      return await llm.ask({ prompt: "" });
    case "access":
      return [await access(["/a", "/b"], [input.doc]), await access(["/a"])];
    case "secret":
      return await secret();
    default:
      throw new SyscallError("INVALID", `No operation ${op}.`);
  }
}
