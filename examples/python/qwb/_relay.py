"""The command that qwb gets as --metric-cmd for a function of Python: passes lines on to the process that has the function, and its
answers back. It is run by itself, not imported: python -I _relay.py ADDRESS."""

import sys
from multiprocessing.connection import Client

with Client(sys.argv[1]) as connection:
    for line in sys.stdin.buffer:
        connection.send_bytes(line)
        try:
            answer = connection.recv_bytes()
        except EOFError:  # the function failed, and its process says how
            sys.exit(1)
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()
