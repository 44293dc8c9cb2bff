"""Imports between the modules of a Rust crate, and the circles among them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

Module = tuple[str, ...]

_USE = re.compile(r"^\s*(?:pub(?:\([a-z]+\))? )?use ([^;]+);", re.MULTILINE)
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*", re.DOTALL)
_ROOTS = {"lib", "main", "mod"}


def circles(source: Path) -> list[set[str]]:
    """Sets of files that import each other in a circle, directly or by others; ``source`` is a crate's ``src``.

    A name that a module only passes on (``pub use``) is imported from where it is defined. Tests do not count.
    """
    files = {_module(file, source): file for file in source.rglob("*.rs") if not _is_test(file, source)}
    uses = {module: list(_uses(module, file, files)) for module, file in files.items()}
    passed_on = {
        (*module, path[-1]): path for module, found in uses.items() for path, is_passed_on in found if is_passed_on
    }
    imports: dict[Module, set[Module]] = {}
    for module, found in uses.items():
        paths = (_defined(path, passed_on) for path, is_passed_on in found if not is_passed_on)
        imports[module] = {of for path in paths if (of := _longest(path, files)) != module}
    reach = {module: _reached(module, imports) for module in files}
    found_circles = {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in files
        if module in reach[module]
    }
    return [{"::".join(module) or "lib" for module in circle} for circle in found_circles]


def _module(file: Path, source: Path) -> Module:
    parts = file.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in _ROOTS else parts


def _is_test(file: Path, source: Path) -> bool:
    names = _module(file, source)
    declared = (file.parent / "mod.rs", file.parent / "lib.rs", file.parent.with_suffix(".rs"))
    cfg = re.compile(rf"#\[cfg\(test\)\]\s*(?:pub\([a-z]+\) )?mod {file.stem};")
    return "tests" in names or any(parent.exists() and cfg.search(parent.read_text()) for parent in declared)


def _uses(module: Module, file: Path, files: Mapping[Module, Path]) -> Iterator[tuple[Module, bool]]:
    """Paths from the crate's root that a file imports, and whether it only passes them on."""
    text = _TESTS.sub("", file.read_text())
    for match in _USE.finditer(text):
        is_passed_on = match[0].lstrip().startswith("pub")
        for path in _paths(match[1]):
            first, *rest = path
            if first == "crate":
                yield tuple(rest), is_passed_on
            elif first in ("super", "self"):
                ups = sum(part == "super" for part in path)
                yield (
                    (*module[: len(module) - ups], *(part for part in path if part not in ("super", "self"))),
                    is_passed_on,
                )
            elif (*module, first) in files:
                yield (*module, *path), is_passed_on


def _paths(tree: str) -> Iterator[tuple[str, ...]]:
    """The paths of a ``use`` tree: ``a::{b, c::d}`` is ``a::b`` and ``a::c::d``."""
    head, brace, rest = re.sub(r"\s+|\bas \w+", "", tree).partition("{")
    start = tuple(part for part in head.split("::") if part)
    if not brace:
        yield start
        return
    depth, part = 0, ""
    for letter in rest[: rest.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield from ((*start, *path) for path in _paths(part) if part)
            part = ""
        else:
            part += letter


def _defined(path: Module, passed_on: Mapping[Module, Module]) -> Module:
    for _ in range(10):
        if path not in passed_on:
            break
        path = passed_on[path]
    return path


def _longest(path: Module, files: Mapping[Module, Path]) -> Module:
    while path and path not in files:
        path = path[:-1]
    return path


def _reached(module: Module, imports: Mapping[Module, set[Module]]) -> set[Module]:
    reached: set[Module] = set()
    left = set(imports[module])
    while left:
        reached.add(one := left.pop())
        left |= imports[one] - reached
    return reached
