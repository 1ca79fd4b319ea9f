"""Asking: the routes by which questions come and answers are shown."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from degroot.node.page import downloads, rows
from degroot.node.page.answer import Answer
from degroot.node.page.archive import Archive
from degroot.node.page.desk import Desk
from degroot.node.page.encoding import KIND, reply, reply_of
from degroot.node.page.gate import check_token
from degroot.node.page.inquiries import FILE_BYTES, FORM_BYTES, Inquiry, Terms, TooMuch, filed, typed
from degroot.node.threads import computed
from degroot.node.wire import SOLVE

LIMIT = 500  # rows that are shown at once
NOT_THERE = "There is no such answer; the last 100 are kept."


class NotThere(Exception):
    """What is asked for is not there."""


def ask_routes(desk: Desk, archive: Archive, token: str, features: list[str]) -> APIRouter:
    """Questions and answers."""
    router = APIRouter(prefix="/api")

    async def admitted(request: Request) -> None:
        check_token(request, token)

    @router.post("/ask", dependencies=[Depends(admitted)])
    async def ask(
        request: Request, filename: str = "", way: str = SOLVE, guard: bool = True, coverage: float | None = None
    ) -> Response:
        work = desk.take(await _inquiry(request, filename, Terms(way, guard, coverage), features))
        return reply({"id": work.id, "url": f"/answers/{work.id}"}, 202)

    @router.get("/answers", dependencies=[Depends(admitted)])
    async def answers() -> Response:
        kept = await computed(False, archive.entries)
        return reply({"answers": [*desk.entries(), *kept]})

    async def found(id: str) -> Answer:
        answer = await computed(False, archive.find, id)
        if answer is None:
            raise NotThere(NOT_THERE)
        return answer

    Found = Annotated[Answer, Depends(found)]

    @router.get("/answers/{id}")
    async def answer(id: str) -> Response:
        work = desk.find(id)
        return reply((await found(id)).summary() if work is None else desk.summary(work))

    @router.get("/answers/{id}/rows")
    async def page(
        answer: Found,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMIT)] = 50,
        sort: str = "i",
    ) -> Response:
        return await reply_of(rows.page, answer, offset, limit, sort)

    @router.get("/answers/{id}/rows/{i}")
    async def row(answer: Found, i: int) -> Response:
        return await reply_of(rows.one, answer, i)

    @router.get("/answers/{id}/download")
    async def download(answer: Found, format: str = "csv") -> Response:
        downloads.check_kind(format)
        headers = {"Content-Disposition": f'attachment; filename="answer-{answer.id[:8]}.{format}"'}
        if format == "json":
            return StreamingResponse(downloads.lines(answer), media_type=KIND, headers=headers)
        content = await computed(False, downloads.written, answer, format)
        return Response(content, media_type=downloads.KINDS[format], headers=headers)

    return router


async def _inquiry(request: Request, filename: str, terms: Terms, features: list[str]) -> Inquiry:
    """What is asked: rows as JSON, or a file."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() == KIND:
        return await computed(False, typed, await _body(request, FORM_BYTES), features)
    terms.checked()
    return await computed(False, filed, await _body(request, FILE_BYTES), filename, kind, terms, features)


async def _body(request: Request, most: int) -> bytes:
    """What was sent, unless that is more than so many bytes."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise TooMuch(f"At most {most} bytes are taken here; more came. `degroot ask` takes more.")
        parts.append(part)
    return b"".join(parts)
