"""Every public name says what it is and shows an example. The examples run with the other doctests, under `src`."""

import importlib
import inspect
from pathlib import Path

import pytest

import degroot
from degroot.cluster import Ray

MODULES = ("degroot", "degroot.plot", "degroot.baselines", "degroot.partitions")
INTERNAL = {"Agent.scorer", "Ray.panel"}  # between parts of the package


def public(module):
    """The functions and classes of a module that are for users."""
    home = importlib.import_module(module)
    names = getattr(home, "__all__", None) or [
        name
        for name, thing in vars(home).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module and callable(thing)
    ]
    return [getattr(home, name) for name in names]


def methods(cls):
    """The methods of a class that are written here; properties are told of with their class."""
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        function = getattr(found, "__func__", found)
        if not name.startswith("_") and inspect.isfunction(function) and function.__module__.startswith("degroot"):
            yield f"{cls.__name__}.{name}", function


THINGS = [*(thing for module in MODULES for thing in public(module)), Ray]
METHODS = dict(pair for thing in THINGS if inspect.isclass(thing) for pair in methods(thing))


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: f"{thing.__module__}.{thing.__qualname__}")
def test_a_public_name_shows_an_example(thing):
    assert ">>>" in (thing.__doc__ or "")


@pytest.mark.parametrize("name", sorted(METHODS.keys() - INTERNAL))
def test_a_public_method_shows_an_example(name):
    assert ">>>" in (METHODS[name].__doc__ or "")


def test_the_examples_are_among_those_that_run():
    root = Path(degroot.__file__).parent
    for thing in [*THINGS, *METHODS.values()]:
        assert root in Path(inspect.getfile(inspect.unwrap(thing))).parents


def test_every_property_says_what_it_is():
    for thing in THINGS:
        if inspect.isclass(thing):
            for name, found in vars(thing).items():
                assert not isinstance(found, property) or name.startswith("_") or found.__doc__, f"{thing}.{name}"
