import { definePlugin, type OpenContext, SyscallError, type VFSFile } from "rnix/plugin";

/** The smallest plugin that has everything the conformance suite looks at. */
export default definePlugin({
  name: "echo",
  devices: {
    "/dev/echo": {
      match: "prefix",
      factory: (subpath, _flags, context) => open(subpath, context),
      tools: [
        {
          name: "Echo",
          description: "Answers the text it is given, after the prefix of its settings.",
          input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
          subject: "text",
        },
      ],
      provider: { detect: async (env) => (env.ECHO ? { model: "echo-1" } : null) },
    },
  },
  mount: {
    type: "echo",
    open: async (config, context, signal) => {
      const { prefix } = Object(config);
      signal.throwIfAborted();
      if (prefix === "wait") await aborted(signal);
      if (typeof prefix !== "string") throw new SyscallError("INVALID", "prefix: expected a text.");
      const say = {
        name: "say.it",
        description: "Answers the text it is given, after the prefix it was mounted with.",
        input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
      };
      const device = { factory: () => open("", { ...context, config: { prefix } }), tools: [say] };
      return { devices: { "/say": device }, unmount: async () => {} };
    },
  },
});

function open(subpath: string, { config }: OpenContext): VFSFile {
  if (subpath !== "" && subpath !== "/below") throw new SyscallError("NOT_FOUND", `Nothing at ${subpath}.`);
  let answer = "";
  return {
    async write(data, signal) {
      const text = textOf(String(data));
      signal.throwIfAborted();
      if (text === "wait") await aborted(signal);
      const { prefix } = Object(config);
      answer = `${prefix}${text}`;
    },
    async read(max) {
      const piece = answer.slice(0, max);
      answer = answer.slice(max);
      return piece;
    },
    async close() {},
    async stat() {
      return { name: "echo", size: answer.length, isDevice: true, devicePath: "/dev/echo" };
    },
  };
}

function textOf(input: string): string {
  try {
    const { text } = Object(JSON.parse(input));
    if (typeof text === "string") return text;
  } catch (cause) {
    throw new SyscallError("INVALID", "Expected JSON.", { cause });
  }
  throw new SyscallError("INVALID", "text: expected a text.");
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
