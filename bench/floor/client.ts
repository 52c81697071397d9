/**
 * The floor of a run: a bare client that makes the same HTTP calls, streamed, and runs the shell command
 * that the model asks for, with no record, no permission, no daemon. `client URL MODEL`.
 */
interface Delta {
  content?: string;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

const [url, model] = process.argv.slice(2);
const messages: object[] = [{ role: "user", content: "go" }];
for (;;) {
  const response = await fetch(`${url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer none" },
    body: JSON.stringify({ model, messages, stream: true, stream_options: { include_usage: true } }),
  });
  const answer = await read(response);
  if (answer.calls.length === 0) {
    process.stdout.write(`${answer.text}\n`);
    break;
  }
  messages.push({
    role: "assistant",
    content: answer.text,
    tool_calls: answer.calls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: call.input },
    })),
  });
  for (const call of answer.calls) {
    const { command } = JSON.parse(call.input);
    const child = Bun.spawn(["/bin/sh", "-c", command], { stdout: "pipe", stderr: "inherit" });
    const content = await new Response(child.stdout).text();
    await child.exited;
    messages.push({ role: "tool", tool_call_id: call.id, content });
  }
}

async function read(
  response: Response,
): Promise<{ text: string; calls: { id: string; name: string; input: string }[] }> {
  const calls: { id: string; name: string; input: string }[] = [];
  let text = "";
  let buffer = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    buffer += decoder.decode(chunk, { stream: true });
    const lines = buffer.split("\n");
    buffer = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const delta: Delta = JSON.parse(line.slice(6)).choices?.[0]?.delta ?? {};
      text += delta.content ?? "";
      for (const part of delta.tool_calls ?? []) {
        const call = calls[part.index] ?? { id: "", name: "", input: "" };
        calls[part.index] = call;
        call.id += part.id ?? "";
        call.name += part.function?.name ?? "";
        call.input += part.function?.arguments ?? "";
      }
    }
  }
  return { text, calls };
}

export {};
