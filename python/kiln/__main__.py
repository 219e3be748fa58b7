"""`python -m kiln ARGUMENTS...` is the program `kiln`."""
import os
import sys

from kiln._errors import Error
from kiln._programs import kiln_program

try:
    program = kiln_program()
except Error as error:
    sys.exit(f"kiln: {error}")
os.execv(program, [program, *sys.argv[1:]])
