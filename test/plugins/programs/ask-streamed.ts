import { type Device, O_RDWR, type OpenContext } from "../../../src/plugin/index.ts";
import { exchange, text } from "../../support/conformance/vfs-file.ts";
import { request } from "../../support/model-server/device.ts";

/** One streamed request to a model device that is opened for it, and all that it answers. */
export async function askStreamed(device: Device, asked: object, context: OpenContext): Promise<string> {
  const file = await device.factory("", O_RDWR, context);
  try {
    return text(await exchange(file, JSON.stringify({ ...request, stream: true, ...asked })));
  } finally {
    await file.close();
  }
}

/** A conversation of these words. */
export function user(content: string): object {
  return { messages: [{ role: "user", content }] };
}
