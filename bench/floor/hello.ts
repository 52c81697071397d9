/** The floor of a command's start: a compiled Bun program that prints a line, in the way that costs least. */
await Bun.write(Bun.stdout, "hello\n");

export {};
