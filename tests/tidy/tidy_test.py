#!/usr/bin/env python3
# Plants one violation of each rule in a small tree and expects exactly that finding: a rule that
# finds nothing would otherwise pass for a clean repository.
import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # leave nothing in the source tree
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

CLEAN = {
    ".clang-format": "DisableFormat: true\n",
    "include/tutti/a.hpp": "// The api.\n#pragma once\n\n/// Does it.\nvoid act();\n",
    "src/base/CMakeLists.txt": "# base\ntutti_module(base SOURCES a.cpp TESTS a_test.cpp)\n",
    "src/base/a.cpp": '// Does it.\nconst char* name() { return "TUTTI_A"; }\n',
    "src/base/a_test.cpp": "// Tests it.\nint main() {}\n",
    "docs/environment.md": "# Environment\n\n| variable |\n| --- |\n| `TUTTI_A` |\n",
    "README.md": "# Read me\n\nSee [the variables](docs/environment.md#environment).\n",
}


def function(lines):
    return "// Long.\nint f(int n) {\n" + "  n++;\n" * (lines - 3) + "  return n;\n}\n"


class Tidy(unittest.TestCase):
    def findings(self, changes):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **changes}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return tidy.check(root)[0]

    def expect(self, path, line, part, changes):
        found = self.findings(changes)
        self.assertEqual([(p, n) for p, n, _ in found], [(path, line)], found)
        self.assertIn(part, found[0][2])

    def test_clean_tree_has_no_findings(self):
        self.assertEqual(self.findings({}), [])

    def test_include_against_the_direction(self):
        self.expect("src/base/a.cpp", 2, "must not include", {
            "src/base/a.cpp": '// A.\n#include "net/socket.hpp"\n\nconst char* name() { return "TUTTI_A"; }\n'})

    def test_public_header_with_private_include(self):
        self.expect("include/tutti/a.hpp", 4, "only <tutti/...>", {
            "include/tutti/a.hpp": '// The api.\n#pragma once\n\n#include "base/clock.hpp"\n'})

    def test_file_too_long(self):
        self.expect("src/base/a_test.cpp", 502, "at most 500", {
            "src/base/a_test.cpp": "// Tests it.\n" + "int main();\n" * 501})

    def test_function_of_the_limit_passes_and_longer_fails(self):
        self.assertEqual(self.findings({"src/base/a_test.cpp": function(70)}), [])
        self.expect("src/base/a_test.cpp", 2, "f has 71 lines", {"src/base/a_test.cpp": function(71)})

    def test_long_member_function_and_constructor(self):
        body = "\n".join(["    use();"] * 70)
        for head, name in [("template <class T>\n  explicit A(T t) : a_{t}, b_(1) {", "A"),
                           ("[[nodiscard]] int get() const override {", "get")]:
            text = "// A.\nnamespace n {\nclass A : public B<int> {\n public:\n  " + head
            text += "\n" + body + "\n  }\n};\n}  // namespace n\n"
            found = [f for f in self.findings({"src/base/a_test.cpp": text}) if "lines, at most" in f[2]]
            self.assertEqual(len(found), 1, text)
            self.assertIn(name + " has", found[0][2])

    def test_banned_words(self):
        for text, part in [("using namespace std;", "using namespace"), ("void f() { usleep(1); }", "usleep"),
                           ("#define A 1", "#define"), ("int a;  // TODO later", "TODO"),
                           ("int a;  // NOLINT", "NOLINT")]:
            self.expect("src/base/a_test.cpp", 2, part, {"src/base/a_test.cpp": "// T.\n" + text + "\n"})

    def test_banned_words_in_text_and_numbered_todo_pass(self):
        self.assertEqual(self.findings({"src/base/a_test.cpp":
                         "// No usleep here. TODO(#12)\nconst char* a = \"std::views\";\n"}), [])

    def test_no_opening_comment(self):
        self.expect("src/base/a.cpp", 1, "open the file", {
            "src/base/a.cpp": 'const char* name() { return "TUTTI_A"; }\n', "src/base/a_test.cpp": "int a;\n"})

    def test_test_that_nothing_builds(self):
        self.expect("src/base/b_test.cpp", 1, "no target builds it", {"src/base/b_test.cpp": "// T.\nint a;\n"})

    def test_undocumented_public_function(self):
        self.expect("include/tutti/a.hpp", 4, "'act'", {
            "include/tutti/a.hpp": "// The api.\n#pragma once\n\nvoid act(int a);\n"})

    def test_environment_both_ways(self):
        self.expect("src/base/a.cpp", 2, "TUTTI_B", {
            "src/base/a.cpp": '// A.\nconst char* a[] = {"TUTTI_A", "TUTTI_B"};\n'})
        self.expect("docs/environment.md", 5, "nothing in src reads", {"src/base/a.cpp": "// A.\nint a;\n"})

    def test_dead_links(self):
        self.expect("README.md", 3, "there is no", {"README.md": "# R\n\n[a](docs/b.md)\n"})
        self.expect("README.md", 3, "no such heading", {"README.md": "# R\n\n[a](docs/environment.md#b)\n"})

    @unittest.skipUnless(shutil.which("clang-format"), "needs clang-format")
    def test_unformatted(self):
        self.expect("src/base/a_test.cpp", 2, "make format", {
            ".clang-format": "BasedOnStyle: Google\n", "src/base/a_test.cpp": "// T.\nint  a;\n"})

    def test_trailing_blanks(self):
        self.expect("README.md", 1, "trailing", {"README.md": "# R \n"})


if __name__ == "__main__":
    unittest.main()
