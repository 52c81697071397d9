/**
 * The floor of a run: a bare client that makes the same HTTP calls, streamed, with the same prompt and tools, and runs
 * the shell command that the model asks for, with no record, no permission, no daemon. `client URL [stdout]`: the
 * second argument makes it print by `process.stdout`, as most programs do and as costs as much again as all the rest.
 */

/** The first request that Rnix makes, put in as it is compiled. */
declare const FIRST_REQUEST: { messages: object[] };

interface Delta {
  content?: string;
  tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

interface Answer {
  text: string;
  calls: { id: string; name: string; input: string }[];
}

const [url, printer] = process.argv.slice(2);
const { messages, ...head } = FIRST_REQUEST;
for (;;) {
  const response = await fetch(`${url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer none" },
    body: JSON.stringify({ ...head, messages }),
  });
  const answer = await read(response);
  if (answer.calls.length === 0) {
    if (printer === "stdout") process.stdout.write(`${answer.text}\n`);
    else await Bun.write(Bun.stdout, `${answer.text}\n`);
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
    // The shell that Rnix takes: what it needs to start is no part of either side.
    const child = Bun.spawn(["bash", "-c", command], { stdout: "pipe", stderr: "inherit" });
    const content = await new Response(child.stdout).text();
    await child.exited;
    messages.push({ role: "tool", tool_call_id: call.id, content });
  }
}

async function read(response: Response): Promise<Answer> {
  const answer: Answer = { text: "", calls: [] };
  const decoder = new TextDecoder();
  let buffer = "";
  for await (const chunk of response.body ?? []) {
    buffer += decoder.decode(chunk, { stream: true });
    const lines = buffer.split("\n");
    buffer = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") add(answer, line.slice("data: ".length));
    }
  }
  return answer;
}

function add(answer: Answer, event: string): void {
  const delta: Delta = JSON.parse(event).choices?.[0]?.delta ?? {};
  answer.text += delta.content ?? "";
  for (const part of delta.tool_calls ?? []) {
    const call = answer.calls[part.index] ?? { id: "", name: "", input: "" };
    answer.calls[part.index] = call;
    call.id += part.id ?? "";
    call.name += part.function?.name ?? "";
    call.input += part.function?.arguments ?? "";
  }
}

export {};
