"""A function of Python as --metric-cmd of a command: the command asks, through _relay.py, and the function answers in this process."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading

from . import _metric
from ._feeds import Folder, is_path, numpy
from ._process import InputError

RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_relay.py")


class Asked:
    """with Asked(function, labels, samples) as command: the command for --metric-cmd. What the function raises is raised at the end.

    The socket lies in a folder that only this user can read, and bytes alone go through it.
    """

    def __init__(self, function, labels, samples):
        self.function, self.labels, self.error, self.closed = function, {}, None, False
        if labels is not None and not is_path(labels):
            labels = list(labels)
            if samples is None or samples.names is None:
                raise InputError("labels of a metric go with data in arrays; for files name a label file (file<TAB>class in each line)")
            if len(labels) != len(samples.names):
                raise InputError(f"labels: {len(labels)} for {len(samples.names)} samples")
            self.labels = dict(zip(samples.names, labels))
        self.lock = threading.Lock()

    def __enter__(self):
        from multiprocessing.connection import Client, Listener  # slow to import

        self.folder, self.client = Folder("qwb-metric-"), Client
        name = os.path.basename(self.folder.name)
        self.listener = Listener(rf"\\.\pipe\{name}" if os.name == "nt" else os.path.join(self.folder.name, "s"))
        threading.Thread(target=self._accept, daemon=True).start()
        command = [sys.executable, "-I", RELAY, self.listener.address]
        return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)

    def __exit__(self, *_):
        self.closed = True
        self.client(self.listener.address).close()  # ends the wait for the next one
        self.listener.close()
        self.folder.close()
        if self.error is not None:
            raise self.error

    def _accept(self):
        while True:
            connection = self.listener.accept()
            if self.closed:
                return connection.close()
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection:
            try:
                while True:
                    question = json.loads(connection.recv_bytes())
                    with self.lock:
                        value = self._value(question)
                    connection.send_bytes(json.dumps({"value": value}).encode())
            except EOFError:  # the command has ended
                pass
            except BaseException as e:  # of the function; the command fails for want of an answer
                self.error = e

    def _value(self, question):
        outputs = {o["name"]: numpy().load(o["file"]) for o in question["outputs"]}
        label = question.get("label", self.labels.get(os.path.basename(question["sample"])))
        if len(outputs) == 1:
            outputs = next(iter(outputs.values()))
        return _metric.value(self.function, _metric.stacked([outputs]), None if label is None else numpy().asarray([label]))
