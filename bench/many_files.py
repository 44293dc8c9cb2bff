"""``python -m bench.many_files``: what files cost the volume among a thousand and among a million others.

``crates/volume/examples/many_files.rs`` fills a volume in its own process, without sockets, and calls procedures on
files all over it. The table has the CPU time of each call in microseconds, and the memory of a file. CPU time hardly
depends on the machine's load, but the part of it that waits for memory does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.machine import environment, save

CHECKOUT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
EXAMPLE = "many_files"
CALLS = 1000
FILES = (1_000, 10_000, 100_000, 1_000_000)
TREE_DIRECTORY_FILES = 1_000
"""Files of each directory of a tree."""
FILE_BYTES = 1024
OPERATIONS = ("lookup", "getattr", "list", "create", "write", "rename", "remove")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    build = ("cargo", "build", "--release", "--quiet", "--package=iocurve-volume")
    subprocess.run([*build, f"--example={EXAMPLE}"], cwd=CHECKOUT, check=True)
    rows = []
    print("".join(f"{name:>10}" for name in ("", "files", *OPERATIONS, "B/file", "B/empty")))
    for store in options.stores:
        for files in options.files:
            for shape, in_directory in (("one", files), ("tree", TREE_DIRECTORY_FILES)):
                row = _measured(store, files, in_directory)
                rows.append({"store": store, "shape": shape, "files": files, **row})
                costs = "".join(f"{row['cpu_us'][name]:10.2f}" for name in OPERATIONS)
                memory = "".join(f"{row['file_memory_bytes'][size]:10.0f}" for size in (FILE_BYTES, 0))
                print(f"{store[:4]} {shape:>5}{files:10,}{costs}{memory}", flush=True)
    document = {
        **environment(),
        "calls": CALLS,
        "rows": rows,
    }
    print(f"Saved as {save(document, options.out, 'many-files-')}")
    return 0


def _measured(store: str, files: int, files_per_directory: int) -> dict[str, Any]:
    cpu_us, memory = {}, {}
    for file_bytes in (FILE_BYTES, 0):
        for line in _run(store, files, file_bytes, files_per_directory):
            if "bytes_per_file" in line:
                memory[file_bytes] = line["bytes_per_file"]
            elif file_bytes:
                cpu_us[line["operation"]] = line["cpu_ns"] / 1000
    return {"cpu_us": cpu_us, "file_memory_bytes": memory}


def _run(store: str, *numbers: int) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="iocurve-many-files-") as directory:
        where = ["--directory", directory] if store == "directory" else []
        program = CHECKOUT / "target/release/examples" / EXAMPLE
        words = [str(program), *map(str, numbers), str(CALLS), *where]
        output = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
        yield from map(json.loads, output.splitlines())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.many_files", description=__doc__)
    parser.add_argument("stores", nargs="*", default=["memory", "directory"], help="memory, directory; default: both")
    parser.add_argument("--files", type=int, nargs="+", default=FILES, help="numbers of files")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
