"""Time limits of streams: a wait that takes too long is ended, one that does not is left alone, with one timer."""

import asyncio

import pytest

from degroot.node.time_limit import TimeLimit

LONG = 3600.0  # seconds, in which nothing ends


async def wait(limit, seconds, future=None):
    with limit.within(seconds):
        return await (asyncio.get_running_loop().create_future() if future is None else future)


def test_a_wait_that_takes_too_long_is_a_timeout_error_and_the_next_one_is_not():
    async def scene():
        limit = TimeLimit()
        with pytest.raises(TimeoutError):
            await wait(limit, 0.01)
        assert asyncio.current_task().cancelling() == 0
        assert not limit.is_waiting
        assert await wait(limit, LONG, asyncio.sleep(0, "came")) == "came"
        limit.close()

    asyncio.run(scene())


def test_many_waits_have_one_timer_and_a_shorter_one_ends_in_time():
    async def scene():
        loop, set_times = asyncio.get_running_loop(), []
        call_at = loop.call_at

        def count(when, *call):
            set_times.append(when)
            return call_at(when, *call)

        loop.call_at = count
        limit = TimeLimit()
        for _ in range(100):
            await wait(limit, LONG, asyncio.sleep(0))
        assert len(set_times) == 1
        with pytest.raises(TimeoutError):
            await wait(limit, 0.01)
        assert len(set_times) == 2
        limit.close()

    asyncio.run(scene())


def test_the_timer_of_a_wait_that_ended_does_not_end_a_later_one():
    async def scene():
        limit, came = TimeLimit(), asyncio.get_running_loop().create_future()
        await wait(limit, 0.01, asyncio.sleep(0))
        waiting = asyncio.create_task(wait(limit, LONG, came))
        while limit._timer is None or limit._timer_at < limit._deadline:  # until the first timer has ended
            await asyncio.sleep(0.001)
        came.set_result("came")
        assert await waiting == "came"
        limit.close()

    asyncio.run(scene())


def test_a_wait_can_be_shortened_and_not_lengthened():
    async def scene():
        limit = TimeLimit()
        limit.shorten(0.0)  # nothing waits
        waiting = asyncio.create_task(wait(limit, LONG))
        await asyncio.sleep(0)
        assert limit.is_waiting
        limit.shorten(2 * LONG)
        assert limit._deadline < asyncio.get_running_loop().time() + 1.5 * LONG
        limit.shorten(0.0)
        with pytest.raises(TimeoutError):
            await waiting

    asyncio.run(scene())


def test_somebody_elses_cancellation_stays_one():
    async def scene():
        limit = TimeLimit()
        waiting = asyncio.create_task(wait(limit, LONG))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert waiting.cancelled()
        both = asyncio.create_task(wait(limit, LONG))
        await asyncio.sleep(0)
        both.cancel()
        limit.shorten(0.0)
        with pytest.raises(asyncio.CancelledError):
            await both
        limit.close()

    asyncio.run(scene())


def test_an_error_is_not_hidden():
    async def fail():
        raise ValueError("this")

    async def scene():
        limit = TimeLimit()
        with pytest.raises(ValueError, match="this"):
            await wait(limit, LONG, fail())
        limit.close()

    asyncio.run(scene())
