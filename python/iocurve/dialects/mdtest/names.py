"""Names of mdtest's directories and items, and how many there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iocurve.dialects.mdtest.options import Options

TREE = "mdtest_tree"
"""Name of a tree's directories before their numbers."""


@dataclass(frozen=True)
class Shape:
    """Numbers of directories and items. Directory 0 is a tree's root; the children of d are d × b + 1 to d × b + b."""

    options: Options
    loops: int
    """Test directories of an iteration, each with a tree."""
    directories: int
    """Directories of a tree."""
    per_directory: int
    """Items of a rank in each directory that has items."""

    @classmethod
    def of(cls, options: Options) -> Shape:
        """The numbers that follow from -n, -I, -z, -b and -L, as in mdtest."""
        branches, depth = options.branch_factor, options.depth
        directories = sum(branches**level for level in range(depth + 1))
        with_items = branches**depth if options.leaf_only else directories
        both = bool(options.items and options.items_per_directory)
        loops = options.items // options.items_per_directory if both else 1
        per_directory = options.items_per_directory or options.items // with_items
        return cls(options, loops, directories, per_directory)

    @property
    def nodes(self) -> range:
        """Directories of a tree that have items."""
        leaves = self.options.branch_factor**self.options.depth
        return range(self.directories - leaves if self.options.leaf_only else 0, self.directories)

    @property
    def items(self) -> int:
        """Items of a rank, in all loops."""
        return self.loops * len(self.nodes) * self.per_directory

    def test_directory(self, rank: int, iteration: int, loop: int) -> str:
        """The directory of an iteration, below the directory of -d that a rank uses."""
        paths = self.options.paths
        return f"{paths[rank % len(paths)].rstrip('/')}/test-dir.{iteration}-{loop}"

    def tree_directories(self, rank: int, iteration: int, loop: int) -> Iterator[str]:
        """All directories of the tree that a rank makes, each after the one that it is in."""
        base = self._base(rank)
        top = self.test_directory(rank, iteration, loop)
        return (f"{top}/{self._directory(base, number)}" for number in range(self.directories))

    def item_paths(self, kind: str, rank: int, iteration: int, shift: int) -> Iterator[str]:
        """The items that a rank uses, in order of their numbers, after a number of rank shifts (-N)."""
        options = self.options
        owner = (rank + shift * options.shift) % options.ranks
        base = self._base((owner + options.shift) % options.ranks)
        for loop in range(self.loops):
            top = self.test_directory(rank, iteration, loop)
            for node in self.nodes:
                directory = f"{top}/{self._directory(base, node)}/{kind}.mdtest.{owner}."
                first = node * self.per_directory
                for number in range(first, first + self.per_directory):
                    yield f"{directory}{number}"

    def _base(self, rank: int) -> str:
        return f"{TREE}.{rank}" if self.options.unique else TREE

    def _directory(self, base: str, number: int) -> str:
        names = [f"{base}.{number}"]
        while number > 0:
            number = (number - 1) // self.options.branch_factor
            names.append(f"{base}.{number}")
        return "/".join(reversed(names))
