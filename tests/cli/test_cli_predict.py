"""`degroot predict`: files in, one whole file out; a kill changes nothing, and every mistake is one line."""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, Ridge
from support.consortium import Consortium, save_linear

from degroot import Agent, Collective

NAMES = ["x0", "x1", "x2"]


def rows(count, seed=0):
    random = np.random.default_rng(seed)
    table = pd.DataFrame(random.normal(size=(count, 3)), columns=NAMES)
    return table.assign(id=[f"r{seed}-{k}" for k in range(count)])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A collective in a folder."""
    random, agents = np.random.default_rng(1), []
    for k in range(3):
        X = pd.DataFrame(random.normal(k / 2, 1.0, size=(80, 3)), columns=NAMES)
        y = (np.sin(X) @ np.array([1.0, -2.0, k])).to_numpy()
        agents.append(Agent(Ridge().fit(X, y), X, y, f"a{k}"))
    folder = tmp_path_factory.mktemp("saved") / "collective"
    Collective(agents).save(folder)
    return folder


@pytest.fixture
def predict(degroot, monkeypatch, tmp_path, saved):
    """`degroot predict` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **options):
        options = {"collective": saved} | options
        told = [
            text for name, value in options.items() if value is not None
            for text in (f"--{name.replace('_', '-')}", str(value))
        ]  # fmt: skip
        return degroot("predict", *arguments, *told)

    return run


@pytest.fixture
def refused(predict, tmp_path):
    """What a mistake is told as: one line, exit code 2, and nothing written."""

    def run(*arguments, **options):
        before = sorted(tmp_path.rglob("*"))
        code, out, err = predict(*arguments, **{"output": "out.parquet"} | options)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert err.startswith("degroot: ")
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return run


def assert_answered(found, expected):
    assert_allclose(found["value"], expected.value, rtol=1e-9)
    assert_allclose(found["standard_error"], expected.standard_error, rtol=1e-9)
    for k, name in enumerate(expected.names):
        assert_allclose(found[f"weight_{name}"], expected.weights[:, k], rtol=1e-9)


WRITERS = {
    "in.csv": lambda table: table.to_csv("in.csv", index=False),
    "in.parquet": lambda table: table.to_parquet("in.parquet"),
    "in.feather": lambda table: table.to_feather("in.feather"),
    "in.arrow": lambda table: pa.feather.write_feather(pa.table(table), "in.arrow"),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("output", ["out.parquet", "deep/out.csv"])
def test_files_go_in_and_answers_come_out(predict, saved, tmp_path, name, output):
    table = rows(70)
    WRITERS[name](table[["id", "x2", "x0", "x1"]])
    code, out, err = predict(input=name, output=output, keep="id")
    assert (code, err) == (0, "")
    assert re.fullmatch(
        rf"70 rows; 0 bad; \d+\.\d seconds of start-up; \d+\.\d seconds; [\d,]+ rows per second; {output}\n", out
    )
    found = pd.read_parquet(output) if output.endswith("parquet") else pd.read_csv(output)
    assert list(found) == ["id", "value", "standard_error", "weight_a0", "weight_a1", "weight_a2"]
    assert list(found["id"]) == list(table["id"])
    assert_answered(found, Collective.load(saved).consult(table[NAMES].to_numpy()))
    assert not list(tmp_path.rglob("*.unfinished"))


def test_a_folder_patterns_and_several_files_are_taken_together(predict, saved):
    os.makedirs("in/deep")
    for k, name in enumerate(["in/b.csv", "in/deep/a.csv", "in/a.csv"]):
        rows(5, k).to_csv(name, index=False)
    shutil.copy("in/a.csv", "z.csv")
    order = [2, 0, 1, 2]
    for given in (["in", "z.csv"], ["in/*.csv", "in/deep/a.csv", "z.csv"]):
        code, out, _ = predict("--input", given[0], *given[1:], output="out.csv", keep="id", jobs=2)
        assert code == 0
        assert "20 rows" in out
        assert list(pd.read_csv("out.csv")["id"]) == [f"r{k}-{row}" for k in order for row in range(5)]


def test_what_is_written_can_be_chosen(predict, saved):
    rows(9).assign(note="text, with a comma").to_csv("in.csv", index=False)
    arguments = {"input": "in.csv", "output": "out.csv"}
    assert predict("--keep", "note", **arguments, keep="x1, id", fields="influence,value").code == 0
    found = pd.read_csv("out.csv")
    assert list(found) == ["note", "x1", "id", "influence_a0", "influence_a1", "influence_a2", "value"]
    assert set(found["note"]) == {"text, with a comma"}
    answer = Collective.load(saved).consult(rows(9)[NAMES].to_numpy())
    assert_allclose(found[["influence_a0", "influence_a1", "influence_a2"]], answer.influence, rtol=1e-9)


def test_bounds_are_those_of_the_collective(predict, refused, saved):
    rows(60).to_csv("in0.csv", index=False)
    rows(60, 1).to_csv("in1.csv", index=False)
    both = pd.concat([rows(60), rows(60, 1)])[NAMES].to_numpy()
    answer = Collective.load(saved).calibrate().consult(both, coverage=0.8)
    assert predict(input="in?.csv", output="out.parquet", coverage=0.8).code == 0
    found = pd.read_parquet("out.parquet")
    assert list(found) == ["value", "standard_error", "lower", "upper", "weight_a0", "weight_a1", "weight_a2"]
    for name in ("value", "lower", "upper"):
        assert_allclose(found[name], getattr(answer, name), rtol=1e-9)
    assert predict(input="in?.csv", output="few.csv", coverage=0.8, fields="weights").code == 0
    assert list(pd.read_csv("few.csv"))[:3] == ["lower", "upper", "weight_a0"]
    assert "must lie between 0 and 1; got 90.0" in refused(input="in0.csv", output="new.csv", coverage=90)


def test_a_run_does_not_go_on_with_another_coverage(predict):
    rows(100).to_csv("a.csv", index=False)
    rows(3).assign(x1="?").to_csv("b.csv", index=False)  # which ends the run
    command = {"input": "?.csv", "output": "out.parquet", "jobs": 1}
    assert "row 1 of b.csv" in predict(**command, coverage=0.8).err
    assert "it had other coverage. `restart` begins anew." in predict(**command, coverage=0.9).err
    assert "it had other fields, coverage. `restart` begins anew." in predict(**command).err


def test_sets_have_a_column_for_each_class(predict):
    random, agents = np.random.default_rng(2), []
    for k in range(2):
        X = pd.DataFrame(random.normal(k / 2, 1.0, size=(80, 3)), columns=NAMES)
        y = np.where(X["x0"] + random.normal(size=80) > 0, "high", "low")
        agents.append(Agent(LogisticRegression().fit(X, y), X, y, f"a{k}", classes=["high", "low"]))
    collective = Collective(agents)
    collective.save("classes")
    rows(20).assign(x1=lambda table: table["x1"].where(table.index != 3)).to_csv("in.csv", index=False)
    options = {"collective": "classes", "coverage": 0.8, "on_bad_row": "null", "fields": "value"}
    assert predict(input="in.csv", output="out.parquet", **options).code == 0
    found, good = pd.read_parquet("out.parquet"), np.arange(20) != 3
    assert list(found) == ["value_high", "value_low", "set_high", "set_low"]
    assert found["set_high"].isna().tolist() == (~good).tolist()
    sets = collective.calibrate().consult(rows(20)[NAMES][good], coverage=0.8).sets
    assert (found[["set_high", "set_low"]][good].to_numpy(bool) == sets).all()


def test_bad_rows_are_null_and_counted_if_asked_for(predict):
    table = rows(10).astype({"x1": object})
    table.loc[[2, 7], "x1"] = ["?", None]
    table.to_csv("in.csv", index=False)
    code, out, _ = predict(input="in.csv", output="out.csv", keep="id", on_bad_row="null")
    assert (code, "10 rows; 2 bad;" in out) == (0, True)
    found = pd.read_csv("out.csv")
    assert list(found.index[found["value"].isna()]) == [2, 7]
    assert list(found.index[found["weight_a1"].isna()]) == [2, 7]


def test_a_large_collective_is_read_first_where_that_is_asked_for(predict, saved, monkeypatch):
    folder = shutil.copytree(saved, "copy")
    rows(5).to_csv("in.csv", index=False)
    monkeypatch.setattr("degroot.saved.loading.SMALL", 0)
    command = {"collective": folder, "input": "in.csv", "output": "out.csv"}
    assert predict("--verify", **command).code == 0
    errors = np.load(f"{folder}/agent-1/errors.npy")
    np.save(f"{folder}/agent-1/errors.npy", 2.0 * errors)
    assert predict(**command).code == 0
    code, out, err = predict("--verify", **command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "agent-1/errors.npy must be as it was saved; it has been changed or damaged." in err
    np.save(f"{folder}/agent-1/errors.npy", np.full_like(errors, np.nan))
    assert "Every answer must be a finite number; row 1 of in.csv: " in predict(**command).err


def test_a_file_by_hand_says_who_answers(predict, saved, tmp_path):
    listed = 'rule = "average"\ntarget = "y"\n'
    for k in range(2):
        rows(50, k + 5).drop(columns="id").assign(y=k).to_csv(f"rows{k}.csv", index=False)
        listed += f'[[agents]]\nname = "a{k}"\nmodel = "{saved}/agent-{k + 1}/model.skops"\ndata = "rows{k}.csv"\n'
    (tmp_path / "c.toml").write_text(listed)
    rows(10).to_parquet("in.parquet")
    assert predict(collective="c.toml", input="in.parquet", output="out.parquet").code == 0
    found = pd.read_parquet("out.parquet")
    assert_answered(found, Collective.load(tmp_path / "c.toml").consult(rows(10)[NAMES].to_numpy()))


def test_features_without_names_are_numbered(predict, refused, tmp_path):
    X = rows(60)[NAMES].to_numpy()
    Collective([Agent(Ridge().fit(X, X[:, 0]), X, X[:, 0], "north")]).save(tmp_path / "unnamed")
    rows(10).to_csv("in.csv", index=False)
    assert predict(collective="unnamed", input="in.csv", output="out.csv", fields="value").code == 0
    assert_allclose(pd.read_csv("out.csv")["value"], Collective.load("unnamed").predict(rows(10)[NAMES].to_numpy()))
    rows(10).rename(columns={"x2": "z"}).to_csv("other.csv", index=False)
    assert "other.csv must have the column 'x2'" in refused(collective="unnamed", input="other.csv")


def test_nodes_answer_as_they_do_when_they_are_asked(predict, degroot, tmp_path_factory):
    with Consortium(tmp_path_factory.mktemp("consortium"), 3) as consortium:
        consortium.fork().ready()
        who = {"collective": None, "node": f"127.0.0.1:{consortium.ports['node0']}", **consortium.credentials()}
        for k in range(2):
            rows(1500, k).to_csv(f"in{k}.csv", index=False)
        code, out, err = predict("--consensus", **who, input="in*.csv", output="out.parquet", keep="id")
        assert (code, err) == (0, "")
        assert "3,000 rows" in out
        found = pd.read_parquet("out.parquet")
        assert list(found)[-2:] == ["missing", "flags"]
        assert set(found["missing"]) == {""}
        both = pd.concat([rows(1500, k) for k in range(2)])
        assert list(found["id"]) == list(both["id"])
        assert_answered(found, consortium.collective().consult(both[NAMES].to_numpy()))
        for more in ({}, {"asker": "node0"}):  # a node answers from its own view
            assert predict(**who, **more, input="in0.csv", output="own.csv").code == 0
            expected = consortium.collective().consult(rows(1500, 0)[NAMES].to_numpy(), asker="node0")
            assert_answered(pd.read_csv("own.csv"), expected)
        for more, told in (
            ({"asker": "node1"}, "`asker` must be the asked node, 'node0'; for the view of 'node1' ask its own node."),
            ({"asker_column": "id"}, "`asker_column` must come with a collective in files or in memory; a node has"),
            ({"fields": "trust"}, "The field 'trust' must come with the consensus"),
        ):
            code, _, err = predict(**who, **more, input="in0.csv", output="out.csv")
            assert (code, err.count("\n"), told in err) == (2, 1, True), err
        asked = [text for name, value in who.items() if value for text in (f"--{name}", str(value))]
        for more, told in (
            ((), "asked by node0"),
            (("--asker", "node0"), "asked by node0"),
            (("--consensus",), "row 1."),
        ):
            code, out, err = degroot("explain", "--input", "in0.csv", *asked, *more)
            assert (code, err, told in out) == (0, "", True), out
        code, _, err = predict(**who, input="in0.csv", output="out.csv", engine="ray")
        assert (code, "must come with a collective in files or in memory" in err) == (2, True)


def test_rows_are_answered_for_an_asker(predict, saved):
    rows(30).to_csv("in.csv", index=False)
    fields = "value,standard_error,weights,correction"
    assert predict("--correct", input="in.csv", output="out.csv", fields=fields, asker="a2").code == 0
    found, collective = pd.read_csv("out.csv"), Collective.load(saved)
    answer = collective.consult(rows(30)[NAMES].to_numpy(), asker="a2", correct=True)
    assert_answered(found, answer)
    assert_allclose(found["correction"], answer.correction, rtol=1e-9, atol=1e-12)


def test_rows_are_answered_for_the_asker_that_a_column_names(predict, saved):
    who = [["a0", "a1", "a2", "nobody", ""][k % 5] for k in range(30)]
    rows(30).assign(who=who).to_csv("in.csv", index=False)
    code, out, err = predict(input="in.csv", output="out.csv", asker_column="who", keep="who", coverage=0.8)
    assert (code, err) == (0, "")
    told = (
        "12 of 30 rows have a 'who' that is no agent with a view of its own ('nobody', missing): "
        "they get the neutral consensus"
    )
    assert out.count(told) == out.count("\n") == 1
    found = pd.read_csv("out.csv", keep_default_na=False)
    assert found["who"].tolist() == who
    collective = Collective.load(saved).calibrate()
    asked = [name if name in collective.names else None for name in who]
    answer = collective.consult(rows(30)[NAMES].to_numpy(), asker=asked, coverage=0.8)
    assert_answered(found, answer)
    assert_allclose(found["upper"], answer.upper, rtol=1e-9)


def test_an_answer_is_explained_for_an_asker(degroot, saved, tmp_path):
    rows(3).to_csv(tmp_path / "in.csv", index=False)
    collective, point = Collective.load(saved), rows(3)[NAMES].to_numpy()[2:]
    asked = ("explain", "--collective", str(saved), "--input", str(tmp_path / "in.csv"), "--row", "3")
    for more, about in (
        (("--asker", "a1"), {"asker": "a1"}),
        (("--asker", "a1", "--correct", "--coverage", "0.8"), {"asker": "a1", "correct": True, "coverage": 0.8}),
    ):
        code, out, err = degroot(*asked, *more)
        assert (code, err) == (0, "")
        assert out.strip() == collective.consult(point, **about).explain(0).text.replace("point 0", "row 3", 1)
        assert "for row 3, asked by a1" in out
    for more, told in (
        (("--asker", "a7"), "`asker` must be one of 'a0', 'a1', 'a2'; got 'a7'."),
        (("--correct",), "`correct` must come with an `asker`, whose rows tell of errors; got none."),
        (("--asker", "a1", "--consensus"), "--consensus must come without --asker."),
    ):
        code, out, err = degroot(*asked, *more)
        assert (code, out, err) == (2, "", f"degroot: {told}\n")


def test_a_run_does_not_go_on_with_other_arrays_of_the_collective(predict, saved, monkeypatch):
    monkeypatch.setattr("degroot.saved.loading.SMALL", 0)  # as of a large one
    folder = shutil.copytree(saved, "copy")
    rows(100).to_csv("a.csv", index=False)
    rows(3).assign(x1="?").to_csv("b.csv", index=False)  # which ends the run
    command = {"collective": folder, "input": "?.csv", "output": "out.parquet", "jobs": 1}
    for _ in range(2):
        assert "row 1 of b.csv" in predict(**command).err
    np.save(f"{folder}/agent-1/errors.npy", 2.0 * np.load(f"{folder}/agent-1/errors.npy"))
    assert "it had other files. `restart` begins anew." in predict(**command).err


@pytest.mark.parametrize("changed", ["node0", "node1"])
def test_a_run_does_not_go_on_with_other_models_of_the_nodes(predict, tmp_path_factory, changed):
    rows(100).to_csv("a.csv", index=False)
    rows(3).assign(x1="?").to_csv("b.csv", index=False)  # which ends the run
    with Consortium(tmp_path_factory.mktemp("consortium"), 3) as consortium:
        consortium.fork().ready()
        who = {"collective": None, "node": f"127.0.0.1:{consortium.ports['node0']}", **consortium.credentials()}
        command = {**who, "input": "?.csv", "output": "out.parquet", "jobs": 1}
        for _ in range(2):
            assert "row 1 of b.csv" in predict(**command).err
        with consortium.connect() as node:
            before = node.identity["models"]
            save_linear(consortium.folder / changed / "model.skops", [1.0, 2.0, 3.0, 4.0])
            patience = time.monotonic() + 60
            while node.identity["models"] == before:
                assert time.monotonic() < patience
                time.sleep(0.05)
                node.members  # noqa: B018 - asks again
        assert "it had other models. `restart` begins anew." in predict(**command).err
        assert "row 1 of b.csv" in predict("--restart", **command).err


def many(folder, count=300):
    folder.mkdir()
    for k in range(count):
        if k < 10:
            rows(40, k).to_parquet(folder / f"{k:03d}.parquet")
        else:
            shutil.copy(folder / f"{k % 10:03d}.parquet", folder / f"{k:03d}.parquet")


def started(saved, folder, output, *more, **about):
    arguments = ["--collective", saved, "--input", folder, "--output", output, "--keep", "id", *more]
    command = [sys.executable, "-c", "from degroot.cli import main; main()", "predict", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **about)


def wait_for(process, manifest, parts):
    """Until so many parts are finished."""
    patience = time.monotonic() + 120
    while not (manifest.exists() and manifest.read_text().count("\n") > parts):
        assert time.monotonic() < patience
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)


@pytest.mark.parametrize(("suffix", "kills"), [(".parquet", 1), pytest.param(".csv", 3, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_by_the_same_command_and_ends_with_the_same_bytes(predict, saved, tmp_path, suffix, kills):
    many(tmp_path / "in")
    straight, out = tmp_path / f"straight{suffix}", tmp_path / f"out{suffix}"
    assert predict(input=tmp_path / "in", output=straight, keep="id").code == 0
    manifest = tmp_path / f"out{suffix}.unfinished" / "manifest.jsonl"
    finished = 0
    for _ in range(kills):
        process = started(saved, tmp_path / "in", out)
        wait_for(process, manifest, finished + 5)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not out.exists()
        finished = manifest.read_text().count("\n") - 1
    told, err = started(saved, tmp_path / "in", out).communicate()
    assert err == ""
    before = re.match(r"12,000 rows; ([\d,]+) of them before; 0 bad;", told)
    assert int(before[1].replace(",", "")) == 40 * finished
    assert out.read_bytes() == straight.read_bytes()
    assert not manifest.parent.exists()


def test_a_run_can_be_stopped_and_is_not_mixed_with_another(predict, refused, saved, tmp_path):
    many(tmp_path / "in")
    process = started(saved, tmp_path / "in", tmp_path / "out.csv")
    wait_for(process, tmp_path / "out.csv.unfinished" / "manifest.jsonl", 3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.01)
    process.send_signal(signal.SIGINT)  # by one who does not want to wait
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "degroot: interrupted; run the same command again to resume\n")
    told = refused(input=tmp_path / "in", output=tmp_path / "out.csv", fields="value")
    assert "out.csv.unfinished must be of the same command to go on; it had other " in told
    assert "`restart` begins anew" in told
    code, out, _ = predict("--restart", input=tmp_path / "in", output=tmp_path / "out.csv", fields="value")
    assert (code, "before" in out) == (0, False)
    assert len(pd.read_csv(tmp_path / "out.csv")) == 12000


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for 256 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("a small disk can be made by root only")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_full_disk_is_told_and_what_is_finished_is_kept(predict, saved, tmp_path, small_disk, suffix):
    many(tmp_path / "in", 60)
    straight, out = tmp_path / f"straight{suffix}", small_disk / f"out{suffix}"
    assert predict(input=tmp_path / "in", output=straight, keep="id").code == 0
    process = started(saved, tmp_path / "in", out)
    told, err = process.communicate()
    assert (process.returncode, told, err.count("\n")) == (2, "", 1), err
    assert f"{out}: No space left on device. What is finished is kept: the same command goes on." in err
    assert [path.name for path in small_disk.iterdir()] == [f"out{suffix}.unfinished"]
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    code, told, _ = predict(input=tmp_path / "in", output=out, keep="id")
    assert (code, "of them before" in told) == (0, True)
    assert out.read_bytes() == straight.read_bytes()


LIMITED = """
    import resource, sys
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
    sys.argv = sys.argv[:1] + sys.argv[2:]
    from degroot.cli import main
    main()
"""


def test_a_file_that_cannot_grow_is_told_and_what_is_finished_is_kept(predict, saved, tmp_path):
    """As on a full disk, for everybody who runs the tests."""
    many(tmp_path / "in", 60)
    straight, out = tmp_path / "straight.csv", tmp_path / "out.csv"
    arguments = ["--collective", saved, "--input", tmp_path / "in", "--keep", "id"]
    assert predict(input=tmp_path / "in", output=straight, keep="id").code == 0
    limit = straight.stat().st_size // 2  # parts are smaller
    command = [sys.executable, "-c", textwrap.dedent(LIMITED), str(limit), "predict", *map(str, arguments)]
    done = subprocess.run([*command, "--output", str(out)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert f"{out}: File too large. What is finished is kept: the same command goes on." in done.stderr
    assert not out.exists()
    code, told, _ = predict(input=tmp_path / "in", output=out, keep="id")
    assert (code, "of them before" in told) == (0, True)
    assert out.read_bytes() == straight.read_bytes()


def test_the_same_command_writes_the_same_bytes_again(predict):
    rows(50).to_csv("in.csv", index=False)
    written = []
    for jobs in (1, 3, 1):
        assert predict(input="in.csv", output="out.parquet", jobs=jobs).code == 0
        with open("out.parquet", "rb") as file:
            written.append(file.read())
    assert written[0] == written[1] == written[2]


def broken(name):
    """A file that is cut off."""
    with open(name, "rb") as file:
        content = file.read()
    with open(name, "wb") as file:
        file.write(content[: len(content) // 2])


def make_missing():
    rows(5).rename(columns={"x1": "x_1"}).to_parquet("in/b.parquet")


def make_text():
    rows(5).astype({"x1": str}).to_parquet("in/b.parquet")


def make_dates():
    rows(5).assign(x2=pd.Timestamp("2024-01-01")).to_parquet("in/b.parquet")


def make_empty():
    rows(0).to_parquet("in/b.parquet")


def make_nothing():
    open("in/b.parquet", "w").close()


def make_empty_csv():
    open("in/b.csv", "w").close()


def make_header_only():
    rows(0).to_csv("in/b.csv", index=False)


def make_other_columns():
    rows(5).assign(more=1).to_parquet("in/b.parquet")


def make_broken():
    rows(500).to_parquet("in/b.parquet")
    broken("in/b.parquet")


def make_broken_arrow():
    rows(500).to_feather("in/b.feather")
    broken("in/b.feather")


def make_noise():
    with open("in/b.arrow", "wb") as file:
        file.write(b"\0\1nothing of the kind" * 20)


def make_twice():
    with open("in/b.csv", "w") as file:
        file.write("x0,x1,x2,x1,id\n1,2,3,4,5\n")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (make_missing, "in/b.parquet must have the column 'x1'; it has none: did you mean 'x_1'?"),
        (make_text, r"Column 'x1' of in/b.parquet must hold numbers; it holds (large_)?string"),
        (make_dates, "Column 'x2' of in/b.parquet must hold numbers; it holds timestamp"),
        (make_empty, "in/b.parquet must hold at least one row; it has none"),
        (make_nothing, "The input must be whole .parquet files; in/b.parquet: "),
        (make_empty_csv, "in/b.csv must hold a header and at least one row; it is empty"),
        (make_header_only, "in/b.csv must hold at least one row; it has none"),
        (
            make_other_columns,
            "All input files must have the same columns; in/b.parquet has 'more', in/a.parquet has not",
        ),
        (make_broken, "The input must be whole .parquet files; in/b.parquet: "),
        (make_broken_arrow, "The input must be whole .feather files; in/b.feather: "),
        (make_noise, "The input must be whole .arrow files; in/b.arrow: "),
        (make_twice, "The columns of in/b.csv must have different names; 'x1' is there twice"),
    ],
)
def test_a_file_that_does_not_fit_is_named_before_any_work(refused, tmp_path, make, told):
    os.mkdir("in")
    rows(5).to_parquet("in/a.parquet")
    make()
    assert re.search(told.replace("?", r"\?") if "did you" in told else told, refused(input="in"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"input": "nowhere.csv"}, "there is no nowhere.csv"),
        ({"input": "no*.csv"}, r"no file matches no\*.csv"),
        ({"input": "empty"}, "A folder must hold .* files; empty has none"),
        ({"input": "note.txt"}, "The input must be .* files; got note.txt"),
        ({"output": "out.xlsx"}, "The output must be a .parquet or .csv file; got out.xlsx"),
        ({"output": "in.csv"}, "The output must not be among the input; got in.csv"),
        ({"output": "./deep/../in.csv"}, "The output must not be among the input"),
        ({"input": "*.csv", "output": "new.csv"}, "The output must not be among the input; got new.csv"),
        ({"input": ".", "output": "empty/out.csv"}, "The output must not be among the input; got empty/out.csv"),
        ({"output": "folder.csv"}, "The output must be a file; folder.csv is a folder"),
        ({"output": "note.txt/out.csv"}, "The output must go to a folder that can be written; note.txt: "),
        ({"keep": "idd"}, "in.csv must have the column 'idd'; it has none: did you mean 'id'"),
        ({"keep": "id,id"}, "must have different names; 'id' would be there twice"),
        ({"keep": "value", "input": "clash.csv"}, "must have different names; 'value' would be there twice"),
        ({"fields": "values"}, "Fields must be different ones of label, value, .*; got values"),
        ({"fields": ""}, "Fields must be different ones of label, value, .*; got none"),
        ({"asker": "north"}, "`asker` must be one of 'a0', 'a1', 'a2'; got 'north'"),
        ({"asker": "a0", "asker_column": "id"}, "Either `asker` or `asker_column` must say for whom .* got both"),
        ({"asker_column": "idd"}, "in.csv must have the column 'idd'; it has none: did you mean 'id'"),
        ({"asker": "a0", "fields": "trust"}, "The field 'trust' must come with the consensus"),
        ({"fields": "correction"}, "The field 'correction' must come with an asker"),
        ({"on_bad_row": "skip"}, "must be 'refuse' or 'null'; got 'skip'"),
        ({"engine": "spark"}, "`engine` must be one of 'local', 'ray'; got 'spark'"),
        ({"address": "auto"}, "`address` must come with the engine 'ray'; got 'local'"),
        ({"placement": "agents"}, "`placement` must come with the engine 'ray'; got 'local'"),
        ({"placement": "all", "engine": "ray"}, "`placement` must be one of 'workers', 'agents'; got 'all'"),
        ({"collective": None}, "Either --collective or --node must say who is asked; got neither"),
        ({"node": "127.0.0.1:1"}, "Either --collective or --node must say who is asked; got both"),
        ({"collective": "nowhere"}, "nowhere"),
        ({"collective": "in.csv"}, "in.csv"),
        ({"jobs": 0}, "--jobs"),
        ({"input": "bad.csv"}, "row 2 of bad.csv: 'x1' is 'abc'"),
        ({"input": "gap.csv"}, "row 1 of gap.csv: 'x2' is missing"),
        ({"input": "short.csv"}, "Every row must have 4 columns, as the header has; row 2 of short.csv has 3"),
        ({"input": "lists.parquet", "output": "out.csv", "keep": "many"}, ".csv files must be able to hold all"),
        ({"input": "lists.parquet", "output": "out.csv", "keep": "raw"}, "hold all columns; 'raw' holds binary"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line(refused, tmp_path, options, told):
    rows(5).to_csv("in.csv", index=False)
    rows(5).assign(value=1).to_csv("clash.csv", index=False)
    rows(5).assign(many=[[1]] * 5, raw=[b"\xff\x00"] * 5).to_parquet("lists.parquet")
    rows(3).astype({"x1": object}).assign(x1=[1, "abc", 2]).to_csv("bad.csv", index=False)
    rows(3).assign(x2=[None, 1.0, 2.0]).to_csv("gap.csv", index=False)
    (tmp_path / "short.csv").write_text("x0,x1,x2,id\n1,2,3,a\n1,2,3\n")
    (tmp_path / "note.txt").write_text("text")
    for name in ("empty", "folder.csv", "deep"):
        (tmp_path / name).mkdir()
    assert re.search(told, refused(**{"input": "in.csv"} | options))


def test_packages_that_are_missing_are_named(saved, tmp_path):
    rows(5).to_csv(tmp_path / "in.csv", index=False)
    without = "import sys; sys.modules['pyarrow'] = None; from degroot.cli import main; main()"
    arguments = ["--collective", saved, "--input", "in.csv", "--output", "out.csv"]
    command = [sys.executable, "-c", without, "predict", *map(str, arguments)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Large files need extra packages: pip install 'degroot[batch]' (" in done.stderr
