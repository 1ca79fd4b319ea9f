"""Progress: shown from the first second on, one line at a time, with rates that do not count start-up."""

import contextlib
import io
import os
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.processes import wait_for

from degroot import Agent, Collective
from degroot.compute import progress as module
from degroot.compute.progress import SlowWork, announce, progress, take_line_away, write_line


class Clock:
    """A clock that stands still until a test moves it: a busy machine is not slow work."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "TICK", 0.001)  # how often the clock is looked at
    monkeypatch.setattr(module, "_board", module.Board())
    return clock


class Stream(io.StringIO):
    """A standard error: a terminal, or a file."""

    encoding = "utf-8"

    def __init__(self, *, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


class OutStream(Stream):
    """A standard error of a notebook: no terminal."""

    def __init__(self):
        super().__init__(is_terminal=False)


OutStream.__module__ = "ipykernel.iostream"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "_find_width", lambda stream: 120)
    return replace_stderr(monkeypatch, Stream(is_terminal=True))


@pytest.fixture
def file(monkeypatch):
    return replace_stderr(monkeypatch, Stream(is_terminal=False))


@pytest.fixture
def notebook(monkeypatch):
    return replace_stderr(monkeypatch, OutStream())


def replace_stderr(monkeypatch, stream):
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=stream, modules=sys.modules))
    return stream


def read_line(written):
    """What stands on the line after all that was written."""
    line = ""
    for part in re.split("(\r)", written):
        if part == "\r":
            place = 0
        else:
            line = line[:place] + part + line[place + len(part) :] if line else part
    return line.rstrip()


def shown(stream, text):
    """Wait until the thread that looks at the clock has written it."""
    wait_for(lambda: text in read_line(stream.getvalue()))


# -- terminals ---------------------------------------------------------------------------------------------------------


def test_work_is_shown_after_a_second_though_no_step_has_ended(terminal, clock):
    with progress("Training", 4) as work:
        work.name_step("north")
        clock.now = module.PATIENCE
        work.name_step("south")
        assert terminal.getvalue() == ""
        clock.now = 20.0
        shown(terminal, "Training ░░░░░░░░░░░░   0%, 0:20: south")


def test_work_without_a_total_is_shown_by_its_name_and_its_time(terminal, clock):
    with progress("Reading"):
        clock.now = 75.0
        shown(terminal, "Reading … 1:15")


def test_what_ends_within_a_second_is_not_shown(terminal, clock):
    with progress("Training", 2) as work:
        work()
        clock.now = 0.9
        work()
    assert terminal.getvalue() == ""


def test_the_line_is_taken_away_and_has_no_escape_sequences(terminal, clock):
    with progress("Training", 2) as work:
        clock.now = 5.0
        work()
    assert "Training" in terminal.getvalue()
    assert read_line(terminal.getvalue()) == ""
    assert not re.search(r"[^\r -~█░…]", terminal.getvalue())


def test_the_second_counts_for_work_and_what_is_inside_it_together(terminal, clock):
    with progress("Working"):
        with progress("Reading", 1) as work:
            clock.now = 0.6
            work()
        with progress("Training", 2) as work:
            clock.now = 1.2
            work()
            shown(terminal, "Training ██████░░░░░░  50%, 0:00")


def test_work_inside_work_is_told_after_it(terminal, clock):
    with progress("Comparing", 4) as outer, progress("Preparing the view", 5) as inner:
        outer.name_step("north")
        inner()
        clock.now = 2.0
        shown(terminal, "Comparing ░░░░░░░░░░░░   0%, 0:02: north, Preparing the view 20%")


def test_the_bar_is_that_of_the_outermost_work_that_counts_steps(terminal, clock):
    with progress("Working") as outer, progress("Comparing", 4), progress("Reading"):
        outer.name_step("all of it")
        clock.now = 2.0
        shown(terminal, "Comparing ░░░░░░░░░░░░   0%, 0:02: Reading")
        assert "all of it" not in terminal.getvalue()


def test_a_line_has_room(terminal, clock, monkeypatch):
    monkeypatch.setattr(module, "_find_width", lambda stream: 20)
    with progress("Reading 北北北北北北北北北北\x1b[2J\n"):
        clock.now = 2.0
        shown(terminal, "Reading 北北北北北")
    assert all(module.measure_width(part) < 20 for part in terminal.getvalue().split("\r"))


def test_a_name_is_no_command_to_the_terminal(terminal, clock):
    with progress("Reading \x1b[2J\x07 [bold]"):
        clock.now = 2.0
        shown(terminal, "Reading ?[2J? [bold] … 0:02")


def test_a_terminal_that_has_no_such_characters_gets_others(terminal, clock):
    terminal.encoding = "ascii"
    with progress("Reading 北", 2) as work:
        clock.now = 2.0
        work()
        shown(terminal, "Reading ? ######------  50%, 0:02")


def test_a_terminal_that_cannot_write_over_a_line_gets_lines(terminal, clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with progress("Training", 2, lines=True):
        clock.now = 31.0
        wait_for(lambda: terminal.getvalue() == "Training: 0%, 0:31 so far\n")


def test_the_line_goes_for_good_where_the_process_is_about_to_end(terminal, clock):
    with progress("Training", 4) as work:
        clock.now = 2.0
        work()
        shown(terminal, "Training")
        take_line_away()
        assert read_line(terminal.getvalue()) == ""
        clock.now = 9.0
        work()
        assert read_line(terminal.getvalue()) == ""


def test_a_line_is_written_above_that_of_progress(terminal, clock):
    write_line("before")
    with progress("Training", 4) as work:
        write_line("early")
        clock.now = 2.0
        work()
        write_line("late")
        above, below = terminal.getvalue().split("late\n")
    assert terminal.getvalue().startswith("before\nearly\n\rTraining")
    assert read_line(above.rpartition("\n")[2]) == ""
    assert "Training" in read_line(below)


@pytest.mark.parametrize("broken", [OSError("gone"), ValueError("I/O operation on closed file")])
def test_work_goes_on_where_nobody_reads_standard_error_any_more(terminal, clock, broken, monkeypatch):
    def write(text):
        raise broken

    monkeypatch.setattr(terminal, "write", write)
    with progress("Training", 4) as work:
        clock.now = 2.0
        work()
        work()
    assert work.finished == 2


def test_a_notebook_has_the_same_line(notebook, clock):
    with progress("Training", 2) as work:
        clock.now = 2.0
        work()
        shown(notebook, "Training ██████░░░░░░  50%, 0:02")
    assert read_line(notebook.getvalue()) == ""
    assert not re.search(r"[^\r -~█░…]", notebook.getvalue())


def test_a_process_that_works_for_another_shows_nothing(terminal, clock, monkeypatch):
    monkeypatch.setattr("multiprocessing.process.parent_process", lambda: "another")
    with progress("Training", 2) as work:
        clock.now = 2.0
        work()
    assert terminal.getvalue() == ""


# -- rates -------------------------------------------------------------------------------------------------------------


def test_rates_and_estimates_do_not_count_the_first_step(clock):
    work = SlowWork("Training", 10)
    assert work.rate is None
    clock.now = 20.0  # the first step compiles
    work()
    assert work.rate is None
    assert work.estimate_seconds_left(clock.now) is None
    for clock.now in (22.0, 24.0, 26.0):
        work()
    assert work.rate == 0.5
    assert work.estimate_seconds_left(26.0) == 12.0
    assert work.estimate_seconds_left(27.0) == 11.0


def test_rates_count_from_the_end_of_start_up_where_that_is_told(clock):
    work = SlowWork("Predicting", 100, "rows", 40)
    clock.now = 20.0
    work.end_start_up()
    assert work.rate is None
    clock.now = 22.0
    work(30)
    assert work.rate == 15.0
    assert work.estimate_seconds_left(22.0) == 2.0


def test_an_estimate_that_was_too_small_is_not_told(clock):
    work = SlowWork("Training", 3)
    work()
    clock.now = 1.0
    work()
    assert work.estimate_seconds_left(1.5) == 0.5
    assert work.estimate_seconds_left(9.0) is None
    clock.now = 9.0
    work()
    assert work.estimate_seconds_left(9.0) is None


def test_a_bar_tells_rows_a_second_without_start_up(terminal, clock):
    with progress("Predicting", 4000, unit="rows") as work:
        clock.now = 20.0
        work.end_start_up()
        clock.now = 21.0
        work(1000)
        shown(terminal, "Predicting ███░░░░░░░░░  25% of 4,000 rows, 0:21, about 3 s left, 1,000 a second")


def test_steps_of_several_threads_are_all_counted():
    work = SlowWork("Predicting", 4000)
    threads = [threading.Thread(target=lambda: [work() for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert work.finished == 4000


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def test_commands_write_a_line_every_half_minute_where_there_is_no_terminal(file, clock):
    with progress("Training", 4, lines=True) as work:
        work.name_step("north")
        clock.now = 30.0
        work.name_step("south")
        assert file.getvalue() == ""
        clock.now = 31.0
        wait_for(lambda: file.getvalue() == "Training: 0%, 0:31 so far (south)\n")
        work()
        clock.now = 62.0
        work()
    assert file.getvalue().splitlines()[1:] == ["Training: 50%, about 62 s left (south)"]


def test_lines_tell_rows_and_their_rate(file, clock):
    with progress("Predicting", 1000, lines=True, unit="rows", done=100) as work:
        work.end_start_up()
        clock.now = 40.0
        work(400)
    assert file.getvalue() == "Predicting: 500 of 1,000 rows, 10 rows a second, about 50 s left\n"


def test_what_is_not_a_command_writes_no_lines(file, clock):
    with progress("Scoring models", 4) as work:
        clock.now = 40.0
        work()
    assert file.getvalue() == ""


def test_what_a_command_does_inside_is_told_in_its_lines(file, clock):
    with progress("Working", lines=True):
        with progress("Calibrating", 4) as work:
            clock.now = 31.0
            work()
        clock.now = 62.0
        wait_for(lambda: file.getvalue().count("\n") == 2)
    assert file.getvalue().splitlines() == ["Calibrating: 25%, 0:31 so far", "Working: 1:02 so far"]


@pytest.mark.parametrize("stream", [None, Stream(is_terminal=True)])
def test_a_program_without_standard_error_works(stream, clock, monkeypatch):
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)  # None: as under pythonw
    with progress("Training", 2, lines=True) as work, announce("Compiling"):
        clock.now = 40.0
        work()
        write_line("said")
    assert work.finished == 1
    rows = np.arange(20.0)[:, None]
    agents = [Agent(lambda X: X[:, 0], rows, rows[:, 0], name) for name in "abc"]
    assert_allclose(Collective(agents, 3).predict(rows), rows[:, 0], rtol=1e-14)


# -- announcements -----------------------------------------------------------------------------------------------------

COMPILING = "Compiling kernels for this machine, first use only …"


def test_an_announcement_is_a_line_once_its_work_takes_a_second(file, clock):
    with announce(COMPILING):
        clock.now = 1.0
        assert file.getvalue() == ""
        clock.now = 1.1
        wait_for(file.getvalue)
        clock.now = 99.0
    assert file.getvalue() == f"{COMPILING}\n"


def test_an_announcement_is_made_once_though_its_work_comes_again_inside_and_in_other_threads(file, clock):
    inside, told = threading.Barrier(4), threading.Event()

    def compile_kernel():
        with announce(COMPILING):
            inside.wait()
            told.wait()

    threads = [threading.Thread(target=compile_kernel) for _ in range(3)]
    for thread in threads:
        thread.start()
    with announce(COMPILING):
        inside.wait()
        clock.now = 2.0
        wait_for(file.getvalue)
    told.set()
    for thread in threads:
        thread.join()
    with announce(COMPILING):
        clock.now = 9.0
        with announce("Something else"):
            clock.now = 11.0
            wait_for(lambda: "else" in file.getvalue())
    assert file.getvalue() == f"{COMPILING}\nSomething else\n"


def test_many_short_works_take_their_second_together(file, clock):
    for _ in range(10):
        with announce(COMPILING):
            clock.now += 0.09
        clock.now += 5.0  # not announced
    with announce(COMPILING):
        assert file.getvalue() == ""
        clock.now += 0.2
        wait_for(file.getvalue)
    assert file.getvalue() == f"{COMPILING}\n"


def test_threads_that_announce_at_the_same_time_take_that_time_once(file, clock):
    for _ in range(2):
        with announce(COMPILING), announce(COMPILING), announce(COMPILING):
            clock.now += 0.45
    with announce(COMPILING):
        assert file.getvalue() == ""
        clock.now += 0.2
        wait_for(file.getvalue)


def test_a_terminal_and_a_notebook_have_an_announcement_as_long_as_its_work_goes_on(terminal, clock, monkeypatch):
    for stream in (terminal, OutStream()):
        replace_stderr(monkeypatch, stream)
        with announce(COMPILING):
            clock.now += 3.0
            shown(stream, "Compiling kernels for this machine, first use only … 0:03")
        assert read_line(stream.getvalue()) == ""


def test_an_announcement_inside_work_stands_after_it(terminal, clock):
    with progress("Scoring models", 4), announce(COMPILING), announce(COMPILING):
        clock.now = 2.0
        shown(terminal, f"Scoring models ░░░░░░░░░░░░   0%, 0:02: {COMPILING}")


def test_an_announcement_inside_a_command_is_a_line_before_its_half_minute(file, clock):
    with progress("Predicting", 4, lines=True), announce(COMPILING):
        clock.now = 2.0
        wait_for(file.getvalue)
        clock.now = 31.0
        wait_for(lambda: file.getvalue().count("\n") == 2)
    assert file.getvalue() == f"{COMPILING}\nPredicting: 0%, 0:31 so far\n"


def test_an_announcement_lets_no_other_work_write_lines(file, clock):
    with announce(COMPILING), progress("Scoring models", 4) as work:
        clock.now = 40.0
        work()
        wait_for(file.getvalue)
    assert file.getvalue() == f"{COMPILING}\n"


# -- processes ---------------------------------------------------------------------------------------------------------

CLOCK = """
import sys, time
import numpy as np
from degroot import Agent, AgentError, Collective

class Clock:
    now = 0.0
    monotonic = staticmethod(lambda: Clock.now)

sys.modules["degroot.compute.progress"].time = Clock  # it moves when a model is asked: a busy machine is not slow work
"""

SLOW = (
    CLOCK
    + """
def model(X):
    Clock.now += {pause}
    {then}
    return X[:, 0]

rows = np.arange(20.0)[:, None]
print(Collective([Agent(model, rows, rows[:, 0], name) for name in "abc"], 3).predict(rows[:2]))
"""
)


def on_a_terminal(code):
    """What `code` writes to a terminal that is its standard error."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    master, terminal = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal,
        env={**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
        while part := os.read(master, 4096):
            written += part
    os.close(master)
    out = run.communicate(timeout=300)[0]
    assert run.returncode == 0, written.decode()
    return written.decode(), out.decode()


def test_a_terminal_shows_how_far_slow_work_has_come():
    written, out = on_a_terminal(SLOW.format(pause=0.2, then=""))
    assert re.search(r"Scoring models \S+ +(67|100)%", written)
    assert read_line(written) == ""
    assert out == "[0. 1.]\n"


def test_a_terminal_stays_clean_where_work_is_quick():
    assert on_a_terminal(SLOW.format(pause=0, then="")) == ("", "[0. 1.]\n")


def test_nothing_is_written_where_nobody_watches():
    code = SLOW.format(pause=0.2, then="")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[0. 1.]\n", "")


def test_what_a_model_prints_goes_where_it_was_sent():
    written, out = on_a_terminal(SLOW.format(pause=0, then="print('asked')"))
    assert out == 12 * "asked\n" + "[0. 1.]\n"  # nine times for the scores and three for the prediction
    assert written == ""


ERROR = (
    CLOCK
    + """
def model(X):
    Clock.now += 0.3
    if len(X) == 20:
        raise RuntimeError("out of order")
    return X[:, 0]

def agent(name, n):
    return Agent(model, np.arange(n)[:, None], np.arange(n), name)

try:
    Collective([agent("a", 10), agent("b", 10), agent("c", 20)], 3)
except AgentError as error:
    {then}
"""
)


def test_an_error_in_slow_work_ends_the_line():
    then = "Clock.now += 60.0; import os; os.write(2, b'<error>'); time.sleep(0.5)"
    written, _ = on_a_terminal(ERROR.format(then=then))
    before, after = written.split("<error>")
    assert "Scoring models" in before
    assert read_line(before) == after == ""


def test_after_an_error_in_slow_work_printing_works():
    _, out = on_a_terminal(ERROR.format(then="print(error)"))
    assert out == "Agent 'a': its model must predict; it raised RuntimeError: out of order.\n"


FORK = """
import os, sys, warnings
from degroot.compute.progress import announce, progress

warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
with progress("Training", 2) as work:
    child = os.fork()
    if child == 0:
        with progress("Inside", 1) as inner, announce("Compiling"):
            inner()
            work()
if child == 0:
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), work.finished)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_forked_process_goes_on_without_what_was_under_way():
    written, out = on_a_terminal(FORK)
    assert (written, out) == ("", "0 0\n")
