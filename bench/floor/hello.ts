/** The floor of a command's start: a compiled Bun program that prints a line. */
process.stdout.write("hello\n");
