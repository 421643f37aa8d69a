#!/usr/bin/env python3
"""Builds a release: an archive for each platform with the program, its manual pages and completions, the wheels, and SHA256SUMS.

    python3 examples/release/release.py -o dist
    python3 examples/release/release.py -o dist --version 0.2.0 --only linux-amd64

Two runs on the same commit give the same bytes: paths are trimmed, and all files in archives have one date, one owner and one order.
SHA256SUMS is what sha256sum -c reads.
"""

import argparse
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "python"))
sys.dont_write_bytecode = True

import wheel  # noqa: E402: of examples/python

SHELLS = {"bash": "qwb.bash", "zsh": "_qwb", "fish": "qwb.fish", "powershell": "qwb.ps1"}


def beside(version):
    """What stands in every archive beside the program: documents, manual pages, completions."""
    files = [(name, (ROOT / name).read_bytes(), False) for name in ("README.md", "CHANGELOG.md")]
    files += [("docs/" + p.name, p.read_bytes(), False) for p in sorted((ROOT / "docs").glob("*.md"))]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "qwb")
        subprocess.run(["go", "build", "-buildvcs=false", "-ldflags", wheel.link_flags(version), "-o", program, "./cmd/qwb"], cwd=ROOT, check=True)
        subprocess.run([program, "man", os.path.join(folder, "man1")], check=True)
        files += [("man/man1/" + p.name, p.read_bytes(), False) for p in sorted(Path(folder, "man1").iterdir())]
        for shell, name in SHELLS.items():
            script = subprocess.run([program, "completion", shell], check=True, capture_output=True).stdout
            files.append(("completions/" + name, script, False))
    return files


def write_tar(path, files):
    """Writes a .tar.gz of (name, bytes, executable), in that order, with one date and one owner."""
    with open(path, "wb") as f, gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=f, mtime=0) as z:
        with tarfile.open(fileobj=z, mode="w", format=tarfile.USTAR_FORMAT) as t:
            for name, content, executable in files:
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime = len(content), 0o755 if executable else 0o644, 315532800  # 1980, as in the zips
                t.addfile(info, io.BytesIO(content))


def archive(name, version, program, files, folder):
    """Writes the archive of a platform: zip for Windows, .tar.gz for the others."""
    top = f"qwb-{version}-{name}"
    windows = name.startswith("windows")
    files = [("qwb.exe" if windows else "qwb", program, True)] + files
    files = [(f"{top}/{n}", content, executable) for n, content, executable in files]
    path = Path(folder) / (top + (".zip" if windows else ".tar.gz"))
    (wheel.write_zip if windows else write_tar)(path, files)
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--output", required=True, help="folder to write, which must not exist or be empty")
    p.add_argument("--version", type=wheel.checked, default=wheel.source_version(), help="default: %(default)s, from the sources")
    p.add_argument("--only", action="append", choices=list(wheel.PLATFORMS), help="a platform; may be repeated (default: all)")
    a = p.parse_args()
    out = Path(a.output)
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        sys.exit(f"{out}: not empty")
    files, written = beside(a.version), []
    for name in a.only or wheel.PLATFORMS:
        with tempfile.TemporaryDirectory() as folder:
            wheel.build(name, a.version, Path(folder) / "qwb")
            program = Path(folder, "qwb").read_bytes()
        written += [archive(name, a.version, program, files, out), wheel.write_wheel(name, a.version, program, out)]
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(written))
    (out / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    main()
