/** A log that a flood of lines does not fill. */

/** Lines that are logged per second; the rest is counted. */
const LOGGED_PER_SECOND = 50;

export function limitedLog(log: (text: string) => void): (text: string) => void {
  let since = 0;
  let count = 0;
  return (text) => {
    const now = performance.now();
    if (now - since >= 1_000) {
      if (count > LOGGED_PER_SECOND) log(`(${count - LOGGED_PER_SECOND} more lines)`);
      since = now;
      count = 0;
    }
    if (++count <= LOGGED_PER_SECOND) log(text);
  };
}
