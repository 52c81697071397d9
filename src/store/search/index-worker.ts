/** The entry of the index's Worker. build.ts puts it into the executable beside the other Workers. */

import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { RecordKey, type WorkerKey } from "../runs/record-key.ts";
import { IndexService } from "./index-service.ts";
import type { FromIndexWorker, ToIndexWorker } from "./requests.ts";

declare const self: Worker;

let service: IndexService | undefined;

self.onmessage = ({ data }: MessageEvent<ToIndexWorker | WorkerKey>) => {
  if ("bytes" in data) {
    service = new IndexService(RecordKey.ofWorker(data));
    return;
  }
  void answerTo(data).then((answer) => self.postMessage(answer));
};

async function answerTo(operation: ToIndexWorker): Promise<FromIndexWorker> {
  const { id } = operation;
  try {
    return { id, answer: await service?.answer(operation) };
  } catch (thrown) {
    const code = thrown instanceof SyscallError ? thrown.code : "INTERNAL";
    return { id, error: { code, message: messageOf(thrown) } };
  }
}
