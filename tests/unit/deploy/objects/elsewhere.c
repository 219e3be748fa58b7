/* Reaches data of another object; compiled as position-independent code this goes through the GOT.
 */
extern int elsewhere;
int kiln_run(void);
int kiln_run(void) { return elsewhere; }
