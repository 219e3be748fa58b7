/* Thread-local data, which the object contract forbids. */
int kiln_run(void);
static _Thread_local int mine;
int kiln_run(void) { return mine++; }
