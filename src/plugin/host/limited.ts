/** Limits the texts that a Worker sends to the kernel. */

/** The limit of texts per second from one Worker to the kernel's thread. */
const PER_SECOND = 200;

/** Limits a function to 200 texts per second. The rest is counted and dropped. */
export function limited(pass: (text: string) => void): (text: string) => void {
  let from = 0;
  let count = 0;
  return (text) => {
    const now = performance.now();
    if (now - from >= 1_000) {
      if (count > PER_SECOND) pass(`(${count - PER_SECOND} more were dropped)`);
      from = now;
      count = 0;
    }
    if (++count <= PER_SECOND) pass(text);
  };
}
