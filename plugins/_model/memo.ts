/**
 * The last value made, given again as long as it is asked for with the same parts. Provider packages build
 * the schemas of their answers in each model object: made anew for every request, that is most of its cost.
 */
export class Memo<T> {
  #made: { parts: readonly unknown[]; value: T } | undefined;

  async get(parts: readonly unknown[], make: () => Promise<T>): Promise<T> {
    if (this.#made?.parts.every((part, index) => part === parts[index])) return this.#made.value;
    const value = await make();
    this.#made = { parts, value };
    return value;
  }
}
