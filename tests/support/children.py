"""Processes that a test program starts end with it, however it ends: with this module imported, all of them do."""
import ctypes
import os
import signal
import subprocess

PR_SET_PDEATHSIG = 1  # linux/prctl.h
prctl = ctypes.CDLL(None).prctl  # found now: not by a process that is one thread of many


def ends_with_us(before=None):
    """What a new process calls before its program: SIGKILL when the thread that started it is gone. `before` may change
    its user, which would take that back, so it goes first."""
    parent = os.getpid()

    def prepare():
        if before:
            before()
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it was gone before
            os._exit(1)
    return prepare


class Popen(subprocess.Popen):
    def __init__(self, *argv, preexec_fn=None, **how):
        super().__init__(*argv, preexec_fn=ends_with_us(preexec_fn), **how)


subprocess.Popen = Popen  # of subprocess.run, too
