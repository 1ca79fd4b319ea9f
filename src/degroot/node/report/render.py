"""The report as text: facts in, Markdown or HTML out, by template files."""

import re
from datetime import datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from degroot.node.report.facts import Facts
from degroot.node.report.words import CONTENT, INSIDE, NOT_SHOWN, RECEIVERS_KEEP, RISKS, SERVICE

MARKS = re.compile(r"([\\`*_\[\]<>|~#$@]|:(?=//)|(?<=www)\.)")  # that mean something in Markdown, or make links
GROUPS = {
    CONTENT: "Left this organisation",
    SERVICE: "Left as well, without content",
    INSIDE: "Answers to this organisation's own people, which did not leave",
}


def escape_markdown(value: Any) -> Any:
    r"""Text as Markdown shows it, and nothing else: it comes from others.

    >>> print(escape_markdown("<b>|triage|</b>"))
    &lt;b&gt;\|triage\|&lt;/b&gt;
    """
    if not isinstance(value, str):
        return value
    marked = MARKS.sub(r"\\\1", value.replace("&", "&amp;"))
    return marked.replace("\\<", "&lt;").replace("\\>", "&gt;")


def render_markdown(facts: Facts) -> str:
    """The report as Markdown."""
    return _render("report.md.jinja", facts, finalize=escape_markdown)


def render_html(facts: Facts) -> str:
    """The report as a page that needs nothing else."""
    return _render("report.html.jinja", facts, autoescape=True)


def render_assessment(facts: Facts) -> str:
    """A data-protection impact assessment as Markdown, to be filled in where only people know."""
    return _render("assessment.md.jinja", facts, finalize=escape_markdown)


def _render(template: str, facts: Facts, **settings: Any) -> str:
    environment = Environment(
        loader=PackageLoader("degroot.node.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **settings,
    )
    environment.filters |= {"number": _number, "time": _time}
    return environment.get_template(template).render(
        facts=facts, groups=GROUPS, receivers_keep=RECEIVERS_KEEP, not_shown=NOT_SHOWN, risks=RISKS
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"


def _time(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M}"
