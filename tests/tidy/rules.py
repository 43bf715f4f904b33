# The rules of tidy.py: each takes the tree and yields (path, line, what is wrong and how to mend it).
# They hold what a script can see of the form; the rest is for the formatter, the compilers and readers.
import os
import re
import shutil
import subprocess

import cpp_text

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
# Files that are one long table.
LONG_FILES = set()

# A module may include include/tutti, itself and what stands here.
MODULES = {
    "base": [],
    "tensor": ["base"],
    "kernels": ["base", "tensor"],
    "net": ["base"],
    "store": ["base", "net"],
    "rendezvous": ["base", "net", "store"],
    "transport": ["base", "net", "plan"],  # plan for Seat
    "plan": ["base", "tensor"],
    "engine": ["base", "tensor", "kernels", "plan", "transport"],
    "backend": ["base", "tensor", "plan", "engine"],
    # The context owns, and so makes, what the layers below offer.
    "group": ["base", "tensor", "net", "store", "rendezvous", "transport", "plan", "engine", "backend"],
    "launcher": ["base", "net", "store", "rendezvous"],
    "cli": ["base", "tensor", "kernels", "net", "store", "rendezvous", "transport", "plan", "engine",
            "backend", "group", "launcher"],
}

# (pattern, where it may stand nevertheless, what to do instead); in code, not in comments or text.
BANNED_CODE = [
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<!\w)::sleep\(", None,
     "wait for the event itself, with a deadline"),
    (r"\bstd::(ranges::)?views\b", None, "clang 14 rejects libstdc++ 12's views; write the loop"),
    (r"\busing namespace\b", None, "name what is used"),
    (r"\bstd::format\b|#include <format>", None, "use fmt::format"),
    (r"\bstd::source_location\b", None, "use __builtin_FILE() and __builtin_LINE() as defaults"),
    (r"^\s*#\s*define\b", r"^src/kernels/", "no macros: use a function, a constant or a table"),
]
# In every line, comments included.
BANNED_TEXT = [
    (r"\bTODO\b(?!\(#\d+\))", "name the issue: TODO(#n)"),
    (r"\bFIXME\b", "fix it, or name the issue: TODO(#n)"),
    (r"\bNOLINT\w*\b(?!\([\w.,\- ]+\)\s*:?\s*\S)", "name the check and the reason: NOLINT(check): why"),
]


def include_direction(tree):
    """Includes follow the folder table, so that layers stay layers."""
    for path in tree.cpp():
        parts = path.split("/")
        for line, target in _includes(tree.text(path)):
            if parts[0] in ("include", "examples"):
                # An example of several files has its own headers beside it.
                sibling = f"{os.path.dirname(path)}/{target.strip(chr(34))}"
                if not target.startswith("<") and not (parts[0] == "examples" and tree.exists(sibling)):
                    yield path, line, f"includes {target}; only <tutti/...> and the standard library here"
                continue
            module = target.strip('"').split("/")[0]
            if parts[0] != "src" or target.startswith("<") or module not in MODULES:
                continue
            if parts[1] not in MODULES:
                yield path, line, f"folder src/{parts[1]} is not in the table in tests/tidy/rules.py"
            elif module != parts[1] and module not in MODULES[parts[1]]:
                yield path, line, (f"src/{parts[1]} must not include {target}; it may include "
                                   f"{', '.join(MODULES[parts[1]]) or 'nothing but include/tutti'}")


def _includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+(<[^>]+>|"[^"]+")', line)
        if match:
            yield number, match[1]


def file_length(tree):
    """A file fits in a head."""
    for path in tree.code():
        lines = tree.text(path).count("\n")
        if lines > MAX_FILE_LINES and path not in LONG_FILES:
            yield path, lines, f"{lines} lines, at most {MAX_FILE_LINES}; split it by purpose"


def function_length(tree):
    """A function fits on a screen."""
    for path in tree.cpp():
        for function in cpp_text.functions(tree.text(path)):
            lines = function.last - function.first + 1
            if lines > MAX_FUNCTION_LINES:
                yield path, function.first, (f"{function.name} has {lines} lines, at most "
                                             f"{MAX_FUNCTION_LINES}; take a step out of it")


def banned_words(tree):
    """What the project does not use."""
    for path in tree.cpp():
        for number, line in enumerate(cpp_text.code_only(tree.text(path)).splitlines(), 1):
            for pattern, allowed, instead in BANNED_CODE:
                match = re.search(pattern, line)
                if match and not (allowed and re.search(allowed, path)):
                    yield path, number, f"'{match[0].strip()}' is banned; {instead}"
    for path in tree.all():
        if path.startswith("tests/tidy/") or path == "LICENSE":
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            for pattern, instead in BANNED_TEXT:
                match = re.search(pattern, line)
                if match:
                    yield path, number, f"'{match[0]}': {instead}"


def opening_comment(tree):
    """A file says what it is for before anything else."""
    for path in tree.code():
        header = re.sub(r"(_test)?\.cpp$", ".hpp", path)
        tested = re.sub(r"_test\.cpp$", ".cpp", path)
        if any(other != path and tree.exists(other) for other in (header, tested)):
            continue  # the header, or the source that this tests, says it
        lines = [line for line in tree.text(path).splitlines() if not line.startswith("#!")]
        if lines and not re.match(r"\s*(//|#(?!\s*(include|pragma|if|define))|\"\"\"|/\*)", lines[0]):
            yield path, 1, "open the file with 2 to 6 lines that say what it is for"


def sources_are_built(tree):
    """No source, above all no test, that nothing compiles."""
    lists = {os.path.dirname(p): tree.text(p) for p in tree.all() if p.endswith("CMakeLists.txt")}
    for path in tree.cpp():
        if not path.endswith((".cpp", ".c")):
            continue
        folder, name = os.path.split(path)
        words = name if name.endswith("_test.cpp") else os.path.splitext(name)[0]
        while folder not in lists and folder:
            folder = os.path.dirname(folder)
        if "}_test.cpp" in lists.get(folder, ""):  # a loop over the names without _test.cpp
            words = words.removesuffix("_test.cpp")
        if not re.search(rf"(?<![\w.-]){re.escape(words)}(?![\w-])", lists.get(folder, "")):
            yield path, 1, f"no target builds it; name it in {folder or '.'}/CMakeLists.txt"


def public_functions_documented(tree):
    """Every group of declarations in a public header has a /// block."""
    for path in tree.cpp():
        if path.startswith("include/tutti/"):
            for line, name in _undocumented(tree.text(path)):
                yield path, line, f"'{name}' has no /// comment before it or its group of declarations"


_DECLARATION = re.compile(
    r"^(?!\s*(?:return|using|friend|static_assert|throw)\b)\s*[\w:<>,&*\s\[\]]*?[\s&*](\w+)\(")


def _undocumented(text):
    """Declarations in paragraphs without a ///; a `// ----` heading documents the next paragraph,
    a /// before a namespace documents all that is in it."""
    lines = text.splitlines()
    documented, private, heading, namespace = False, False, False, False
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*(public|private|protected):", line):
            private = "public" not in line
        if line.startswith("}"):
            private = namespace = False
        heading = heading or line.startswith("// ----")
        if not line.strip():
            documented = False
        elif not documented and not (line.startswith("// ----")):
            paragraph = lines[number - 1:]
            end = next((i for i, l in enumerate(paragraph) if not l.strip()), len(paragraph))
            documented = heading or any(l.lstrip().startswith("///") for l in paragraph[:end])
            heading = False
        if re.match(r"namespace \w+ \{", line) and documented:
            namespace = True
        match = _DECLARATION.match(line.split("//")[0])
        trivial = re.search(r"\{.*\}|= (default|delete);", line)
        indent = len(line) - len(line.lstrip())
        if match and indent <= 2 and not (documented or private or trivial or namespace):
            yield number, match[1]


def environment_documented(tree):
    """docs/environment.md lists exactly the variables that the code reads."""
    page = "docs/environment.md"
    if page not in tree.all():
        yield page, 1, "is missing; it lists every environment variable"
        return
    known = set(re.findall(r"`([A-Z][A-Za-z0-9_]*)`", tree.text(page)))
    used = set()
    for path in tree.cpp():
        if not path.startswith("src/") or path.endswith("_test.cpp"):
            continue
        for line, literal in cpp_text.literals(tree.text(path)):
            names = re.fullmatch(r"([A-Z][A-Z0-9]*(?:_[A-Za-z0-9]+)+|RANK)=?", literal)
            if names:
                used.add(names[1])
                if names[1] not in known:
                    yield path, line, f"variable {names[1]} is not in {page}; document it there"
    for number, line in enumerate(tree.text(page).splitlines(), 1):
        for name in re.findall(r"`([A-Z][A-Za-z0-9_]*)`", line.split("|")[1] if line.startswith("|") else ""):
            if name not in used:
                yield page, number, f"nothing in src reads {name}; remove the row"


def markdown_links(tree):
    """A link inside the repository leads somewhere."""
    for path in tree.all():
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(_prose(tree.text(path)), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                full = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
                if not tree.exists(full):
                    yield path, number, f"link to {target}: there is no {full}"
                elif anchor and full.endswith(".md") and anchor not in _anchors(tree.text(full)):
                    yield path, number, f"link to {target}: {full} has no such heading"


def _prose(text):
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        yield "" if fenced else re.sub(r"`[^`]*`", "", line)


def _anchors(text):
    for title in re.findall(r"^#+\s+(.*)$", text, re.M):
        yield re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title.strip().lower()))


def whitespace(tree):
    """No trailing blanks, no tabs in code, one newline at the end."""
    for path in tree.all():
        if path == "LICENSE":
            continue
        text = tree.text(path)
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield path, number, "trailing blanks; remove them"
            if "\t" in line and path.endswith((".cpp", ".hpp", ".py", ".txt", ".cmake")):
                yield path, number, "a tab; use spaces"
        if text and not text.endswith("\n"):
            yield path, text.count("\n") + 1, "no newline at the end of the file; add one"


def clang_format(tree):
    """Formatted by clang-format 14, where it is installed."""
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool or " 14." not in subprocess.run([tool, "--version"], capture_output=True, text=True).stdout:
        return
    files = [path for path in tree.cpp() if not path.endswith(".c")]
    for start in range(0, len(files), 40):
        run = subprocess.run([tool, "--dry-run", *files[start:start + 40]], cwd=tree.root,
                             capture_output=True, text=True)
        for path, line in re.findall(r"^([^:\n]+):(\d+):\d+: warning", run.stderr, re.M):
            yield path, int(line), "not formatted; run make format"


ALL = [include_direction, file_length, function_length, banned_words, opening_comment,
       sources_are_built, public_functions_documented, environment_documented, markdown_links,
       whitespace, clang_format]
