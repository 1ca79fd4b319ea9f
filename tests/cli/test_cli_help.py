"""Every command's help fits a screen, says what it does and shows how it is typed."""

import shlex

import pytest
import typer

import degroot
from degroot import cli

WIDTH, LINES = 80, 40


def walk(command, path=("degroot",)):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*path, name))


COMMANDS = dict(walk(typer.main.get_command(cli.make_app())))


@pytest.fixture
def degroot_(monkeypatch, degroot):
    """The command line in this process, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    return degroot


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_fits_a_screen_and_shows_an_example(path, degroot_):
    code, out, err = degroot_(*path[1:], "--help")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    shown = [line.strip() for line in lines if line.startswith("    degroot ")]
    assert any(line.startswith(" ".join(path)) for line in shown), out


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_example_is_a_command_that_can_be_given(path):
    """Its words are read as they would be when typed: commands and options that there are, and nothing left over."""
    told = (COMMANDS[path].epilog or "").replace("\\\n", " ")
    for line in [each.strip() for each in told.splitlines() if each.strip().startswith("degroot ")]:
        words = shlex.split(line)
        inner = max((known for known in COMMANDS if tuple(words[: len(known)]) == known), key=len)
        COMMANDS[inner].make_context(" ".join(inner), words[len(inner) :])  # raises at what it does not know


@pytest.mark.parametrize("path", [path for path in COMMANDS if hasattr(COMMANDS[path], "commands")], ids=" ".join)
def test_a_group_lists_its_commands_in_whole_sentences(path, degroot_):
    alone, asked = degroot_(*path[1:]), degroot_(*path[1:], "--help")
    assert alone[:2] == asked[:2]  # without a command it is the help that is wanted
    listed = asked[1].partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(COMMANDS[path].commands)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed), listed


def test_the_version_is_the_package_s(degroot_):
    assert degroot_("--version") == (0, f"{degroot.__version__}\n", "")


def test_a_mistake_is_one_line(degroot_):
    code, out, err = degroot_("tarin")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "tarin" in err
