/** The transport between a command and the server inside it. */

import type { ByteStream } from "../server/connection/connection.ts";
import type { Pipe, PipeListener } from "./pipe.ts";

/** A client's pipe over a memory stream: the client's end of a pair whose other end the server has. */
export function overStream(stream: ByteStream): Pipe {
  return {
    listen({ data, closed }: PipeListener) {
      let cause: Error | undefined;
      stream.on("data", data);
      stream.on("error", (error) => {
        cause = error;
      });
      stream.on("close", () => closed(cause));
    },
    write: (text) => void stream.write(text),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    close: () => void stream.destroy(),
  };
}
