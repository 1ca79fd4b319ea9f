"""``degroot node report``: the data-flow record of a node, for its data-protection officer."""

from datetime import date
from pathlib import Path

import typer

from degroot.exceptions import InvalidInput
from degroot.files.atomic import save

MARKDOWN, HTML = ".md", ".html"


def write_report(file: Path, out: Path | None, since: str | None, *, dpia: bool) -> None:
    """Print a report, or write it to a file whose suffix says what it is. `dpia`: an assessment to be filled in."""
    suffix, day = _check_suffix(out, dpia), _parse_day(since)
    from degroot.node import config
    from degroot.node.report.facts import gather_facts
    from degroot.node.report.render import render_assessment, render_html, render_markdown

    facts = gather_facts(config.read(file), day)
    text = render_assessment(facts) if dpia else render_html(facts) if suffix == HTML else render_markdown(facts)
    if out is None:
        typer.echo(text, nl=False)
        return
    save(out, text.encode())
    sums = facts.add_up()
    typer.echo(f"{out}: {sums.exchanges:,} messages of {facts.name} about {sums.rows:,} rows")


def _check_suffix(out: Path | None, dpia: bool) -> str:
    """What is to be written, before anything is read."""
    suffix = MARKDOWN if out is None else out.suffix.lower()
    if dpia and suffix != MARKDOWN:
        raise InvalidInput(f"--out must be a {MARKDOWN} file with --dpia, to be filled in; got {out}.")
    if dpia and out is not None and out.exists():
        raise InvalidInput(f"An assessment, which may be filled in, is not overwritten; {out} is there already.")
    if suffix not in (MARKDOWN, HTML):
        raise InvalidInput(f"--out must be a {HTML} or {MARKDOWN} file; got {out}.")
    return suffix


def _parse_day(since: str | None) -> date | None:
    if since is None:
        return None
    try:
        return date.fromisoformat(since)
    except ValueError as error:
        raise InvalidInput(f"--since must be a date such as 2026-01-31; got {since[:40]!r}.") from error
