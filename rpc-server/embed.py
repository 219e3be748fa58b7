"""Writes a file's bytes as a C array: embed.py OUT.h NAME FILE"""
import sys

with open(sys.argv[3], "rb") as source, open(sys.argv[1], "w") as out:
    out.write("static const unsigned char %s[] = {%s};\n" % (sys.argv[2], ",".join(str(byte) for byte in source.read())))
