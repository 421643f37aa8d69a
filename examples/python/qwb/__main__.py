"""The command qwb, and python -m qwb: the program itself, with the arguments as they are."""

import os
import subprocess
import sys

from ._process import QwbError, binary


def main():
    try:
        program = binary()
    except QwbError as e:
        sys.exit("qwb: " + str(e))
    if os.name == "nt":  # there execv would let the shell go on before the program has ended
        sys.exit(subprocess.call([program] + sys.argv[1:]))
    os.execv(program, [program] + sys.argv[1:])


if __name__ == "__main__":
    main()
