"""What `pip install` of a page would install, checked: our extras are there, and so are other packages here.

Run as a program, in place of pip.
"""

import re
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def check(requirement):
    """Complain of an extra that the project does not have, or of a package that was never tried here."""
    name, extras = re.fullmatch(r"([\w.\-/*]+)(?:\[([\w,\-]+)\])?", requirement).groups()
    if name in (".", "degroot") or name.endswith(".whl"):
        unknown = set((extras or "").split(",")) - {"", *PROJECT["optional-dependencies"]}
        assert not unknown, f"{requirement}: no such extra, {unknown}"
    else:
        assert version(name)


if __name__ == "__main__":
    command, *asked = sys.argv[1:]
    assert command == "install", sys.argv
    for each in asked:
        if not each.startswith("-"):
            check(each)
