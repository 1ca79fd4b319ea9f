"""`degroot paper` as its user runs it: separate processes, killed and started again, and fed with mistakes."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from degroot import InvalidInput
from degroot.cli import main
from degroot.paper import cache, catalogue, report
from degroot.paper.cache import Parts
from degroot.paper.data.datasets import load
from degroot.paper.experiment import ExperimentTask
from degroot.paper.figures import synthetic, table1
from degroot.paper.reproduce import RunPlan, reproduce

DEGROOT = [sys.executable, "-c", "from degroot.cli import main; main()"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def degroot(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEGROOT, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def expect_one_line(code: int, stdout: str, stderr: str) -> str:
    assert code == 2
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert "Traceback" not in stderr
    return stderr


@pytest.fixture
def paper_here(monkeypatch, capsys):
    """`degroot paper` in this process: a new one for each mistake takes long to import all. Code and what was said."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["degroot", "paper", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture
def refusal(paper_here):
    """What is said of a mistake, in one line."""
    return lambda *arguments: expect_one_line(*paper_here(*arguments))


def part_files(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (out / "parts").rglob("*.json")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run in one process, with and without data sets."""
    out = tmp_path_factory.mktemp("whole")
    reproduce(RunPlan(names=("synthetic", "figure9"), out=out, reps=2, seed=3, jobs=1, download=False))
    return out


@pytest.mark.slow
def test_a_killed_run_that_is_started_again_ends_with_the_same_bytes_and_computes_only_what_is_missing(whole, tmp_path):
    command = ["paper", "synthetic", "figure9", "--reps", 2, "--seed", 3, "--jobs", 2, "--offline", "--out", tmp_path]
    running = subprocess.Popen([*DEGROOT, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 120
    while len(part_files(tmp_path)) < 3 and running.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)
    running.kill()
    running.wait()
    before = part_files(tmp_path)
    assert 3 <= len(before) < len(part_files(whole))
    assert not (tmp_path / "report.html").exists()

    assert degroot(*command).returncode == 0
    after = part_files(tmp_path)
    assert {path: after[path] for path in before} == before
    assert len(after) == len(part_files(whole))
    for name in ("synthetic", "figure9"):
        assert (tmp_path / f"{name}.csv").read_bytes() == (whole / f"{name}.csv").read_bytes()


def test_a_second_run_computes_nothing(whole):
    before = part_files(whole)
    reproduce(RunPlan(names=("synthetic", "figure9"), out=whole, reps=2, seed=3, jobs=1, download=False))
    assert part_files(whole) == before


def test_another_seed_gives_other_numbers(whole, tmp_path):
    reproduce(RunPlan(names=("synthetic",), out=tmp_path, reps=2, seed=4, jobs=1, download=False))
    assert (tmp_path / "synthetic.csv").read_bytes() != (whole / "synthetic.csv").read_bytes()


def test_fewer_repetitions_are_the_beginning_of_more(whole, tmp_path):
    shutil.copytree(whole / "parts", tmp_path / "parts")
    before = part_files(tmp_path)
    reproduce(RunPlan(names=("synthetic",), out=tmp_path, reps=1, seed=3, jobs=1, download=False))
    assert part_files(tmp_path) == before
    lines = set((whole / "synthetic.csv").read_text().splitlines())
    assert set((tmp_path / "synthetic.csv").read_text().splitlines()) < lines


@pytest.mark.parametrize(
    "damage", ["", "{", '{"rows": []}', '{"digest": "0", "rows": []}', "[1]", "[" * 100_000, "changed"]
)
def test_a_damaged_part_is_computed_again(damage, tmp_path):
    task = synthetic.tasks(synthetic.Settings(reps=1))[0]
    kept, rows = Parts(tmp_path), task.rows()
    kept.write(task, None, rows)
    assert kept.read(task, None) == rows
    [path] = tmp_path.rglob("*.json")
    if damage == "changed":
        content = json.loads(path.read_text())
        content["rows"][0]["mse"] *= 2
        damage = json.dumps(content)
    path.write_text(damage)
    assert kept.read(task, None) is None


def test_a_part_in_the_place_of_another_is_computed_again(tmp_path):
    one, other = synthetic.tasks(synthetic.Settings(reps=2))[:2]
    kept = Parts(tmp_path)
    kept.write(one, None, one.rows())
    [first] = tmp_path.rglob("*.json")
    kept.write(other, None, other.rows())
    [second] = set(tmp_path.rglob("*.json")) - {first}
    shutil.copy(first, second)
    assert kept.read(one, None) == one.rows()
    assert kept.read(other, None) is None


@pytest.mark.slow
def test_workers_end_when_they_are_left_alone(tmp_path):
    command = ["paper", "theorem2", "--reps", 20, "--jobs", 2, "--offline", "--out", tmp_path]
    running = subprocess.Popen(
        [*DEGROOT, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    limit = time.monotonic() + 120
    while not part_files(tmp_path) and running.poll() is None and time.monotonic() < limit:
        time.sleep(0.05)
    running.kill()
    running.wait()
    while members(running.pid) and time.monotonic() < limit:
        time.sleep(0.2)
    assert not members(running.pid)


def members(session: int) -> list[str]:
    """What is still running of a session."""
    listed = subprocess.run(["ps", "-o", "args=", "-s", str(session)], capture_output=True, text=True)
    return [line for line in listed.stdout.splitlines() if "resource_tracker" not in line and "defunct" not in line]


def test_a_part_belongs_to_its_settings_case_repetition_and_data(tmp_path):
    abalone, boston = load("abalone"), load("boston")
    settings = synthetic.Settings()
    first = ExperimentTask(synthetic.trial, settings, {"reading": "a"}, 0)
    kept = Parts(tmp_path)
    kept.write(first, abalone, [{"mse": 1.0}])
    assert kept.read(first, abalone) == [{"mse": 1.0}]
    assert kept.read(ExperimentTask(synthetic.trial, synthetic.Settings(reps=1), {"reading": "a"}, 0), abalone) == [
        {"mse": 1.0}
    ]
    for other in (
        ExperimentTask(synthetic.trial, settings, {"reading": "b"}, 0),
        ExperimentTask(synthetic.trial, settings, {"reading": "a"}, 1),
        ExperimentTask(synthetic.trial, synthetic.Settings(seed=1), {"reading": "a"}, 0),
        ExperimentTask(synthetic.trial, synthetic.Settings(rows=50), {"reading": "a"}, 0),
    ):
        assert kept.read(other, abalone) is None
    assert kept.read(first, boston) is None
    assert kept.read(first, None) is None


def test_a_part_belongs_to_the_code_that_made_it(tmp_path, monkeypatch):
    task, kept = ExperimentTask(synthetic.trial, synthetic.Settings(), {}, 0), Parts(tmp_path)
    kept.write(task, None, [])
    monkeypatch.setattr(cache, "code_version", lambda module: "newer")
    assert kept.read(task, None) is None


def test_the_version_of_the_code_covers_what_an_experiment_imports_and_no_other_experiment(tmp_path, monkeypatch):
    copy = tmp_path / "degroot"
    shutil.copytree(Path(cache.degroot.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache.degroot, "__file__", str(copy / "__init__.py"))

    def versions() -> tuple[str, str]:
        cache.code_version.cache_clear()
        return cache.code_version("degroot.paper.extras.readings"), cache.code_version(
            "degroot.paper.figures.synthetic"
        )

    def changed(file: str) -> tuple[bool, bool]:
        before = versions()
        with (copy / file).open("a") as source:
            source.write("# changed\n")
        return tuple(new != old for new, old in zip(versions(), before, strict=True))

    try:
        assert changed("trust.py") == (True, True)
        assert changed("paper/figures/table1.py") == (True, False)
        assert changed("paper/figures/synthetic.py") == (False, True)
        assert changed("paper/report.py") == (False, False)
    finally:
        cache.code_version.cache_clear()


def test_the_files_that_no_version_depends_on_are_there():
    root = Path(cache.degroot.__file__).parent
    assert [file for file in sorted(cache.BESIDES) if not (root / file).is_file()] == []


def test_the_report_stands_alone_and_has_every_finding(whole):
    page = (whole / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:image/svg\+xml;base64,)""", page)
    assert "http" not in re.sub(r'src="data:[^"]*"', "", page)
    for name in ("synthetic", "figure9"):
        assert f'<section id="{name}">' in page
        for kind in ("csv", "png", "svg"):
            assert (whole / f"{name}.{kind}").stat().st_size > 0
    markdown = (whole / "report.md").read_text()
    assert "![" in markdown
    assert "synthetic.svg" in markdown
    assert markdown.count("| agrees |") + markdown.count("| differs |") >= 5


def test_the_report_shows_its_pictures_in_a_browser(whole, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    script = "<script>for (const i of document.images) i.after(`<${i.naturalWidth > 300}>`)</script></body>"
    page = tmp_path / "page.html"
    page.write_text((whole / "report.html").read_text().replace("</body>", f"<div id=seen></div>{script}"))
    shown = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert shown.stdout.count("&lt;true&gt;") == 2
    assert "&lt;false&gt;" not in shown.stdout


def test_what_has_no_rows_is_left_out_and_said_so(tmp_path):
    chapter = report.chapter("table1", table1, pd.DataFrame(), table1.Settings(), tmp_path)
    page = report.write([chapter], [], ["Boston is away."], tmp_path).read_text()
    assert "Left out: no data set that it needs was at hand." in page
    assert "Left out: Boston is away." in page


def test_an_unknown_name_lists_the_valid_ones(refusal, tmp_path):
    complaint = refusal("figure12", "--out", tmp_path / "out")
    assert "'figure12'" in complaint
    assert all(name in complaint for name in catalogue.NAMES)
    assert not (tmp_path / "out").exists()


def test_an_out_that_cannot_be_written_is_said_before_anything_is_computed(refusal, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/degroot")):
        assert "must go to a folder that can be written" in refusal("--out", out)


def test_a_read_only_out_is_refused(refusal, tmp_path):
    tmp_path.chmod(0o555)
    if os.access(tmp_path, os.W_OK):
        tmp_path.chmod(0o755)
        pytest.skip("this user may write everywhere")
    assert "can be written" in refusal("synthetic", "--out", tmp_path)
    tmp_path.chmod(0o755)


def test_a_data_folder_that_is_not_there_is_refused(refusal, tmp_path):
    complaint = refusal("table1", "--data", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert "nowhere" in complaint


def test_a_truncated_data_file_says_what_was_expected_and_found(refusal, tmp_path):
    np.savez(tmp_path / "abalone.npz", X=np.ones((10, 8)), y=np.ones(10))
    complaint = refusal("figure3", "--data", tmp_path, "--out", tmp_path / "out")
    assert "abalone.npz" in complaint
    assert "4,177" in complaint or "4177" in complaint
    assert "10" in complaint


def test_a_data_set_with_too_few_rows_is_told_with_the_experiment_and_the_case(paper_here, tmp_path):
    np.savez(tmp_path / "abalone_subset.npz", X=np.random.default_rng(0).normal(size=(40, 8)), y=np.arange(40.0))
    out = tmp_path / "out"
    code, _, complaint = paper_here("figure11", "--reps", 1, "--jobs", 1, "--data", tmp_path, "--out", out)
    assert code == 2
    assert "figure11 (data abalone" in complaint
    assert "Traceback" not in complaint


def test_a_parts_that_is_no_folder_is_said_before_anything_is_computed(refusal, tmp_path):
    (tmp_path / "parts").write_text("")
    assert "can be written" in refusal("synthetic", "--out", tmp_path)


def test_quick_and_reps_exclude_each_other(refusal, tmp_path):
    assert "--quick" in refusal("--quick", "--reps", 5, "--out", tmp_path)


@pytest.mark.parametrize(("option", "value"), [("--reps", 0), ("--jobs", 0), ("--seed", -1), ("--reps", "many")])
def test_numbers_out_of_range_are_refused(refusal, option, value, tmp_path):
    assert option in refusal(option, value, "--out", tmp_path)


def test_list_names_every_experiment(paper_here):
    code, listed, _ = paper_here("--list")
    assert code == 0
    assert all(name in listed for name in catalogue.NAMES)


def test_the_catalogue_keeps_the_order_of_the_report():
    assert list(catalogue.find(["figure3", "table1"])) == ["table1", "figure3"]
    with pytest.raises(InvalidInput, match="figure0"):
        catalogue.find(["figure0"])
