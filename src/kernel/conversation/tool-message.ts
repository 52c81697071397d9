/** The message by which a model reads a tool's result. */

import type { Message } from "../../plugin/index.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";

/** The tool message of a call. It is made from the record alone, so it can be rebuilt. */
export function toolMessage(record: ToolCallRecord): Message {
  const content =
    record.error === null
      ? (record.result ?? "")
      : `Error ${record.error_code}: ${record.error}${record.result ? `\n${record.result}` : ""}`;
  return { role: "tool", tool_call_id: record.id, content };
}
