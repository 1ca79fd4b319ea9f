"""Answers: the routes by which answers are listed, looked into and taken away."""

from operator import itemgetter
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import StreamingResponse

from degroot.exceptions import InvalidInput
from degroot.node.page import downloads, rows
from degroot.node.page.answers import Answer, Archive
from degroot.node.page.auth import require_right
from degroot.node.page.encoding import KIND, moment, reply, reply_of
from degroot.node.page.jobs import JobQueue
from degroot.node.page.tokens import ASK
from degroot.node.server.threads import run_in_thread

LIMIT = 500  # rows that are shown at once


class NotThere(InvalidInput):
    """What is asked for is not there."""


def answer_routes(desk: JobQueue, archive: Archive) -> APIRouter:
    """Answers, and questions that are not answered yet."""
    router = APIRouter(prefix="/api/answers")

    @router.get("", dependencies=[require_right(ASK)])
    async def answers() -> Response:
        kept = await run_in_thread(archive.entries)
        return reply({"answers": sorted([*desk.entries(), *kept], key=itemgetter("at"), reverse=True)})

    @router.get("/{id}")
    async def answer(id: str) -> Response:
        work = desk.find(id)
        if work is not None:
            return reply(desk.summary(work))
        found = await _found(archive, id)
        return reply(found.summary() | {"kept": archive.is_kept, "until": moment(archive.find_end(found))})

    return router


def row_routes(desk: JobQueue, archive: Archive) -> APIRouter:
    """What is in an answer."""
    router = APIRouter(prefix="/api/answers/{id}")

    async def found(id: str) -> Answer:
        work = desk.find(id)
        if work is not None:
            raise NotThere(f"There are no rows of an answer: {work.error or 'it is still at work'}")
        return await _found(archive, id)

    Found = Annotated[Answer, Depends(found)]

    @router.get("/rows")
    async def page(
        answer: Found,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=LIMIT)] = 50,
        sort: str = "i",
    ) -> Response:
        return await reply_of(rows.page, answer, offset, limit, sort)

    @router.get("/rows/{i}")
    async def row(answer: Found, i: int) -> Response:
        return await reply_of(rows.describe_row, answer, i)

    @router.get("/download")
    async def download(answer: Found, format: str = "csv") -> Response:
        downloads.check_kind(format)
        headers = {"Content-Disposition": f'attachment; filename="answer-{answer.id[:8]}.{format}"'}
        if format == "json":
            return StreamingResponse(downloads.lines(answer), media_type=KIND, headers=headers)
        content = await run_in_thread(downloads.write_download, answer, format)
        return Response(content, media_type=downloads.KINDS[format], headers=headers)

    return router


async def _found(archive: Archive, id_: str) -> Answer:
    answer = await run_in_thread(archive.find, id_)
    if answer is None:
        raise NotThere(f"There is no such answer; {archive.describe()}.")
    return answer
