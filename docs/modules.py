"""Write the index of all modules into docs/contributing.md, from their docstrings: ``python docs/modules.py``."""

import ast
from pathlib import Path

HERE = Path(__file__).parent
PAGE, SOURCE = HERE / "contributing.md", HERE.parent / "src" / "degroot"
BEGIN, END = "<!-- modules: written by docs/modules.py -->\n", "<!-- end of modules -->\n"


def list_modules() -> str:
    """A Markdown table of every module but generated ones, with what it says of itself."""
    lines = ["| module | what it holds |", "|---|---|"]
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__init__.py" and "v3" not in path.parts:
            told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            first = " ".join(told.split("\n\n")[0].split()).replace("|", "\\|")
            lines.append(f"| `{path.relative_to(SOURCE).as_posix()}` | {first} |")
    return "\n".join(lines) + "\n"


def write_index(text: str) -> str:
    """The page with the index as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + list_modules() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(write_index(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
