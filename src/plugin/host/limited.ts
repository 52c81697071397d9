/** What the kernel's thread is bothered with from one Worker; beyond it texts are counted and dropped. */
const PER_SECOND = 200;

/** Passes at most 200 texts a second on and tells how many it dropped. */
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
