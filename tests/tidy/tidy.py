#!/usr/bin/env python3
# tidy.py [ROOT]: checks the rules of rules.py over every file of the repository, tracked or new.
# Prints `file:line: what is wrong; how to mend it`, a line each, and fails if there is any.
import os
import subprocess
import sys

sys.dont_write_bytecode = True  # leave nothing in the source tree
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rules  # noqa: E402

CPP = (".cpp", ".hpp", ".h", ".c")
BINARY = (".gz", ".bin", ".png", ".svg", ".npy")


class Tree:
    """The files of the repository; without git, those under it that are not built."""

    def __init__(self, root):
        self.root = root
        self._texts = {}
        self._files = sorted(p for p in self._list() if self.exists(p) and not self._binary(p))

    def _list(self):
        listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.root,
                                 capture_output=True, text=True)
        if listing.returncode == 0 and listing.stdout:
            return listing.stdout.splitlines()
        found = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = [f for f in folders if f != ".git" and not f.startswith("build")]
            found += [os.path.relpath(os.path.join(folder, f), self.root) for f in files]
        return found

    def _binary(self, path):
        if path.endswith(BINARY):
            return True
        with open(os.path.join(self.root, path), "rb") as file:
            return b"\0" in file.read(4096)

    def exists(self, path):
        return os.path.exists(os.path.join(self.root, path))

    def text(self, path):
        if path not in self._texts:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                self._texts[path] = file.read()
        return self._texts[path]

    def all(self):
        # Corpora and test data are kept as they are.
        return [p for p in self._files if "/corpus/" not in p and not p.startswith("tests/data/")]

    # The benches of other libraries are shared with those who measure them; not in this style.
    def cpp(self):
        return [p for p in self.code() if p.endswith(CPP)]

    def code(self):
        return [p for p in self.all()
                if p.endswith(CPP + (".py", ".sh", ".cmake")) and not p.startswith("bench/peers/")]


def check(root):
    tree = Tree(root)
    return [finding for rule in rules.ALL for finding in rule(tree)], len(tree.all())


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    findings, files = check(os.path.abspath(root))
    for path, line, text in findings:
        print(f"{path}:{line}: {text}")
    print(f"{files} files, {len(rules.ALL)} rules, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
