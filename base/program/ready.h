/* Tells the service manager that a daemon serves, so that a start that fails is seen by the command
 * that asked for it, and services that come later in order find this one listening. */
#ifndef KILN_BASE_PROGRAM_READY_H
#define KILN_BASE_PROGRAM_READY_H

/* Sends READY=1 to the datagram socket that NOTIFY_SOCKET names: sd_notify(3), units with
 * Type=notify. Does nothing where no service manager waits for it; a manager that cannot be reached
 * is told of in the log, and ends the daemon when its patience does. */
void kiln_ready_tell(void);

#endif
