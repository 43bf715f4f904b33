# C++ source as text with structure: comments and literals blanked out, functions with their lines.
# A heuristic, not a parser; it relies on the layout that clang-format gives.
import re
from dataclasses import dataclass


@dataclass
class Function:
    name: str
    first: int  # line of the opening signature, from 1
    last: int


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


_TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|(?P<raw>R"(?P<delimiter>[^(\s]*)\(.*?\)(?P=delimiter)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|(?<=[=(,\s])'(?:\\.|[^'\\\n])')",
    re.DOTALL,
)


def without_comments(text):
    """The source with comments blanked; line numbers stay."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], text)


def code_only(text):
    """The source with comments, strings and characters blanked; line numbers stay."""
    return _TOKEN.sub(
        lambda m: _blank(m[0]) if m["comment"] else '"' + _blank(m[0][1:-1]) + '"', text)


def literals(text):
    """(line, content) of every plain string literal outside of comments."""
    for match in _TOKEN.finditer(text):
        if match["string"]:
            yield text.count("\n", 0, match.start()) + 1, match["string"][1:-1]


_SCOPE = re.compile(
    r"^(?:(?:inline|static|typedef|constexpr|const)\s+)*(?:namespace|class|struct|union|enum|extern)\b")
_MEMBER_INIT = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:).*[\w>]$", re.DOTALL)


def _without_template(header):
    """Drops `template <...>` in front, so that its `class` does not look like a class."""
    while header.startswith("template"):
        depth = 0
        for i, c in enumerate(header):
            depth += (c == "<") - (c == ">")
            if c == ">" and depth == 0:
                header = header[i + 1:].strip()
                break
        else:
            return header
    return header


def _kind(header):
    header = _without_template(re.sub(r"\[\[.*?\]\]", "", header).strip())
    header = re.sub(r"^(?:public|private|protected)\s*:\s*", "", header)
    header = _without_template(header)
    if _MEMBER_INIT.search(header) and not _SCOPE.match(header):
        return "member_init"
    if _SCOPE.match(header):
        return "scope"
    return "function" if "(" in header else "other"


def _name(header):
    match = re.search(r"([~\w:]+)\s*\(", header)
    if match and re.fullmatch(r"TEST(_[FP])?", match[1]):
        match = re.search(r"\(\s*([^)]*)\)?", header)
    return match[1] if match else "?"


def functions(text):
    """Every function that is not inside another one."""
    code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: _blank(m[0]), code_only(text), flags=re.M)
    found, stack = [], []
    start = line = 1
    header = ""
    for c in code:
        if c == "\n":
            line += 1
        inside = any(kind != "scope" for kind, _, _ in stack)
        if c == "{":
            kind = "other" if inside else _kind(header)
            stack.append((kind, start, header))
            if kind != "member_init":
                header = ""
        elif c == "}" and stack:
            kind, first, opened = stack.pop()
            if kind == "function":
                found.append(Function(_name(opened), first, line))
            if kind != "member_init":
                header = ""
        elif c == ";" and not inside:
            header = ""
        elif not inside:
            if not header.strip() and not c.isspace():
                start = line
                header = ""
            header += c
    return found
