/* Keeps state, which the object contract forbids: .data and .bss. */
int kiln_run(void);
static int counter = 1, total;
int kiln_run(void) { return total += counter++; }
