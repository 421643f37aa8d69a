#!/usr/bin/env python3
"""Builds the wheels of package qwb, each with the Go program in it. Needs Go and Python, nothing else.

    python3 examples/python/wheel.py -o dist                      all platforms
    python3 examples/python/wheel.py -o dist --only linux-amd64   one of them

A wheel is a zip of the package, the program and four files about it. The same sources give the same bytes: no time, no path and no host
stands in it (the compression is that of Python's zlib).
"""

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Name: GOOS, GOARCH, build tags, and the tags of the wheel. With CUDA the program opens the driver at run time, for which it needs the
# C library; without it is static, and runs where there is another one (musl). Go 1.26 needs macOS 12.
PLATFORMS = {
    "linux-amd64": ("linux", "amd64", "", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "linux-arm64": ("linux", "arm64", "", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "linux-amd64-static": ("linux", "amd64", "nocuda", "musllinux_1_1_x86_64"),
    "linux-arm64-static": ("linux", "arm64", "nocuda", "musllinux_1_1_aarch64"),
    "darwin-amd64": ("darwin", "amd64", "", "macosx_12_0_x86_64"),
    "darwin-arm64": ("darwin", "arm64", "", "macosx_12_0_arm64"),
    "windows-amd64": ("windows", "amd64", "", "win_amd64"),
}

METADATA = """Metadata-Version: 2.1
Name: qwb
Version: {version}
Summary: Quantize a trained network to INT8, see what that did to it, repair it, export it
Requires-Python: >=3.9
Provides-Extra: arrays
Requires-Dist: numpy; extra == "arrays"
Description-Content-Type: text/markdown

{text}"""


def source_version():
    """The version that stands in the sources."""
    return re.search(r'version\s*=\s*"([^"]+)"', (ROOT / "cmd/qwb/version.go").read_text()).group(1)


def link_flags(version):
    """What the linker puts into the program: version and commit, which are the same in every checkout of it (what -buildvcs adds is not)."""
    def git(*args):
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, encoding="utf-8")

    head = git("rev-parse", "HEAD")
    commit = head.stdout.strip() + ("+changed" if git("status", "--porcelain").stdout else "") if head.returncode == 0 else ""
    return f"-s -w -X main.version={version} -X main.commit={commit}"


def build(name, version, out):
    """Builds the program for a platform as the file out, without C and without paths of this machine in it."""
    goos, goarch, tags, _ = PLATFORMS[name]
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", link_flags(version), "-o", str(out), "./cmd/qwb"]
    env = dict(os.environ, CGO_ENABLED="0", GOOS=goos, GOARCH=goarch, GOAMD64="v1", GOFLAGS="")
    subprocess.run(command, cwd=ROOT, env=env, check=True)


def write_zip(path, files):
    """Writes a zip of (name, bytes, executable), in that order and with one date for all."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, content, executable in files:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            z.writestr(info, content, compresslevel=9)


def digest(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write_wheel(name, version, program, folder):
    """Writes the wheel of a platform, with the bytes of its program, to a folder and returns its path."""
    tags = PLATFORMS[name][3]
    about = f"qwb-{version}.dist-info"
    files = [(p.relative_to(HERE).as_posix(), p.read_bytes(), False) for p in sorted((HERE / "qwb").rglob("*.*")) if p.suffix in (".py", ".typed")]
    files.append(("qwb/bin/qwb" + (".exe" if name.startswith("windows") else ""), program, True))
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    lines = "".join(f"Tag: py3-none-{t}\n" for t in tags.split("."))
    files += [
        (about + "/METADATA", METADATA.format(version=version, text=text).encode(), False),
        (about + "/WHEEL", f"Wheel-Version: 1.0\nGenerator: qwb\nRoot-Is-Purelib: false\n{lines}".encode(), False),
        (about + "/entry_points.txt", b"[console_scripts]\nqwb = qwb.__main__:main\n", False),
    ]
    record = "".join(f"{n},{digest(c)},{len(c)}\n" for n, c, _ in files) + f"{about}/RECORD,,\n"
    files.append((about + "/RECORD", record.encode(), False))
    path = Path(folder) / f"qwb-{version}-py3-none-{tags}.whl"
    write_zip(path, files)
    return path


def checked(version):
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?", version):
        sys.exit(f"version {version}: not of the form 1.2.3 or 1.2.3rc1")
    return version


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--output", required=True, help="folder for the wheels")
    p.add_argument("--only", action="append", choices=list(PLATFORMS), help="a platform; may be repeated (default: all)")
    p.add_argument("--version", type=checked, default=source_version(), help="default: %(default)s, from the sources")
    p.add_argument("--program", help="with one --only: a program that is there already, instead of building it")
    a = p.parse_args()
    names = a.only or list(PLATFORMS)
    if a.program and len(names) != 1:
        p.error("--program goes with one --only")
    os.makedirs(a.output, exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(a.program) if a.program else Path(folder) / "qwb"
            if not a.program:
                build(name, a.version, program)
            print(write_wheel(name, a.version, program.read_bytes(), a.output))


if __name__ == "__main__":
    main()
