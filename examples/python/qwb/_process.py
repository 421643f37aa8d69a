"""Runs the program: finds it, passes on what it says while it works, makes results of its JSON and exceptions of its exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from typing import Any

from . import results

# Commands that print no JSON object.
PLAIN = {"completion", "demo", "help", "man", "plan recipe", "plan schema", "serve", "bench device", "bench checkpoint"}

# Commands that have commands below them.
NESTED = {"plan", "target", "bench", "completion"}


class QwbError(RuntimeError):
    """What qwb could not do. str() of it is one line.

    command: the arguments; code: the exit code, None where the program did not run; stderr: everything that it said;
    result: what it printed all the same, None where it printed nothing; details: what the program says of the error as data (kind,
    stage, file, node, ...), empty where it says nothing.
    """

    def __init__(self, message, command=(), code=None, stderr="", result=None):
        super().__init__(message)
        self.command, self.code, self.stderr, self.result = list(command), code, stderr, result
        self.details = _details(stderr)


ERROR_LINE = '{"error":'


def _details(stderr):
    """The line of standard error that is an object with the error in it."""
    for line in reversed(stderr.splitlines()):
        if line.startswith(ERROR_LINE):
            try:
                return json.loads(line)["error"]
            except ValueError:
                break
    return {}


class InputError(QwbError):
    """A file, a model or data that cannot be read or used (exit code 1)."""


class UsageError(QwbError):
    """Wrong arguments (exit code 2)."""


class VerdictError(QwbError):
    """A check did not hold: a verification, a budget, a largest drop (exit code 3). result says what was found."""


ERRORS = {1: InputError, 2: UsageError, 3: VerdictError}


def binary() -> str:
    """The path of the program: $QWB_BINARY, else the one in the package, else the first on PATH."""
    name = "qwb.exe" if os.name == "nt" else "qwb"
    given = os.environ.get("QWB_BINARY")
    if given:
        if not os.access(given, os.X_OK) or os.path.isdir(given):
            raise QwbError(f"QWB_BINARY is {given}: no program")
        return given
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    if os.access(own, os.X_OK):
        return own
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found and not _ours(found):
            return found
    raise QwbError("the program qwb was not found: not in this package, not on PATH, and QWB_BINARY is not set")


def _ours(path):
    """Whether a file is the script (on Windows the program with a script in it) that pip makes of __main__, which would only start itself again."""
    if os.path.getsize(path) > 1 << 20:
        return False
    with open(path, "rb") as f:
        return b"qwb.__main__" in f.read()


def flags(options) -> list:
    """Arguments of keyword arguments: max_drop=1 is --max-drop 1, force=True is --force; a list repeats the flag; None and False are left out."""
    out = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if v is True:
                out.append(name)
            elif v is not None and v is not False:
                out += [name, _text(v)]
    return out


def _text(value) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def command_of(args) -> str:
    """The name of a command: of those with others below, both words."""
    words = [a for a in args if not a.startswith("-")][:2]
    return " ".join(words if words and words[0] in NESTED else words[:1])


def run_command(args, progress=None, timeout=None) -> Any:
    """Runs any command of qwb and returns its result: an object of qwb.results, or the text of a command that has no JSON.

    args: the arguments, for instance ["diff", "a.plan.json", "b.plan.json"].
    progress: gets every line of warnings, notes and progress as it comes; None: they go to sys.stderr; False: nowhere.
    timeout: seconds after which the program stops what runs a model, and fails.
    """
    args = [_text(a) for a in args]
    name = command_of(args)
    if timeout is not None:
        args += ["--timeout", f"{timeout}s"]
    has_json = bool(name) and name not in PLAIN and name.split(" ")[0] not in PLAIN
    if has_json and "--json" not in args:
        args.append("--json")
    code, out, err = _run(args, progress)
    result = None
    if has_json and out.strip():
        try:
            result = results.of(name, json.loads(out))
        except ValueError as e:
            if code == 0:
                raise QwbError(f"what qwb {name} printed is no JSON: {e}", args, code, err) from e
    elif not has_json:
        result = out
    if code != 0:
        lines = err.rstrip().splitlines()
        message = lines[-1] if lines else f"qwb {name} ended with code {code}"
        message = message[5:] if message.startswith("qwb: ") else message
        raise ERRORS.get(code, QwbError)(message, args, code, err, result)
    return result


def _run(args, progress):
    """Returns exit code, standard output and standard error."""
    said = []

    def listen(stream):
        for line in stream:
            said.append(line)
            if progress is False or line.startswith(("qwb: ", ERROR_LINE)):  # the error, which is raised
                continue
            if progress is None:
                sys.stderr.write(line)
            else:
                progress(line.rstrip("\n"))

    broken = []

    def listening(stream):
        try:
            listen(stream)
        except BaseException as e:  # of the callback: raised where run_command was called
            broken.append(e)
            process.terminate()
            stream.read()

    process = subprocess.Popen([binary()] + args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               encoding="utf-8", errors="replace")
    assert process.stdout and process.stderr  # for type checkers
    ear = threading.Thread(target=listening, args=(process.stderr,), daemon=True)
    ear.start()
    try:
        out = process.stdout.read()
        code = process.wait()
    except BaseException:  # an interrupted cell of a notebook interrupts the program
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    finally:
        ear.join(5)
        process.stdout.close()
        process.stderr.close()
    if broken:
        raise broken[0]
    return code, out, "".join(said)
