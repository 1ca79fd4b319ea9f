"""Asking: the route by which questions come."""

from fastapi import APIRouter, Request, Response

from degroot.node.answering.terms import SOLVE
from degroot.node.page.auth import get_token, require_right
from degroot.node.page.encoding import KIND, reply
from degroot.node.page.jobs import JobQueue
from degroot.node.page.requests import (
    FILE_BYTES,
    FORM_BYTES,
    AskedTable,
    AskTerms,
    Inquiry,
    TooMuch,
    check_terms,
    parse_rows,
    read_uploaded_file,
)
from degroot.node.page.tokens import ASK
from degroot.node.server.threads import run_in_thread


def ask_routes(desk: JobQueue, table: AskedTable) -> APIRouter:
    """Questions."""
    router = APIRouter(prefix="/api")

    @router.post("/ask", dependencies=[require_right(ASK)])
    async def ask(
        request: Request,
        filename: str = "",
        way: str = SOLVE,
        coverage: float | None = None,
        view: str | None = None,
        purpose: str = "",
    ) -> Response:
        check_terms(request.query_params)
        inquiry = await _inquiry(request, filename, AskTerms(way, coverage, view, purpose), table)
        work = desk.take(inquiry, get_token(request).name)
        return reply({"id": work.id, "url": f"/answers/{work.id}"}, 202)

    return router


async def _inquiry(request: Request, filename: str, terms: AskTerms, table: AskedTable) -> Inquiry:
    """What is asked: rows as JSON, with their terms, or a file."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == KIND:
        return await run_in_thread(parse_rows, await _body(request, FORM_BYTES), table)
    terms.checked()
    return await run_in_thread(read_uploaded_file, await _body(request, FILE_BYTES), filename, kind, terms, table)


async def _body(request: Request, most: int) -> bytes:
    """What was sent, unless that is more than so many bytes."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise TooMuch(f"At most {most} bytes are taken here; more came. `degroot ask` takes more.")
        parts.append(part)
    return b"".join(parts)
