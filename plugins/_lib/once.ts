/** Makes a value at its first use. */

/** For modules too: the runtime takes 30 µs for each `import()` of a module that is loaded already. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
