"""Beijing's stations, as UCI publishes them: an archive in an archive."""

import io
import os
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from degroot import InvalidInput
from degroot.paper.data import beijing, download

HEADER = "No,year,month,day,hour,PM2.5,PM10,SO2,NO2,CO,O3,TEMP,PRES,DEWP,RAIN,wd,WSPM,station"
TIANTAN = [
    "1,2013,3,1,0,4,5,6,7,300,77,-0.7,1023,-18.8,0,NNW,4.4,Tiantan",
    "2,2013,3,1,1,NA,5,6,7,300,77,-0.7,1023,-18.8,0,N,4.4,Tiantan",
]
CHANGPING = [
    "1,2014,5,1,3,9,NA,6,7,300,77,1.5,1000,-2,0,E,2,Changping",
    "2,2014,5,1,4,8,3,6,7,1,2,1,1,1,0,NA,2,Changping",
]


def archive(files=(("Tiantan", TIANTAN), ("Changping", CHANGPING)), inner=beijing.INNER):
    stations, whole = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(stations, "w") as made:
        for name, rows in files:
            made.writestr(f"PRSA_Data/PRSA_Data_{name}_20130301-20170228.csv", "\n".join([HEADER, *rows]))
    with zipfile.ZipFile(whole, "w") as made:
        made.writestr(inner, stations.getvalue())
    return whole.getvalue()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    folder = tmp_path / "cache" / "degroot"
    folder.mkdir(parents=True)
    return folder


def test_hours_with_a_target_are_kept_by_station_with_gaps_and_the_wind_as_an_angle(tmp_path):
    (tmp_path / beijing.ARCHIVE).write_bytes(archive())
    found = beijing.load(tmp_path)
    assert found.station.tolist() == ["Changping", "Changping", "Tiantan"]
    assert found.y.tolist() == [9, 8, 4]
    columns = dict(zip(beijing.FEATURES, found.X.T, strict=True))
    np.testing.assert_array_equal(columns["PM10"], [np.nan, 3, 5])
    np.testing.assert_array_equal(columns["hour"], [3, 4, 0])
    np.testing.assert_allclose(columns["wd_sin"], [1, np.nan, np.sin(np.deg2rad(337.5))])
    np.testing.assert_allclose(columns["wd_cos"], [0, np.nan, np.cos(np.deg2rad(337.5))], atol=1e-15)


def test_an_earlier_download_is_read_and_without_one_nothing_is_fetched_unasked(cache, monkeypatch):
    with pytest.raises(InvalidInput, match=r"must be in a folder as beijing_air\.npz .* from https://archive\.ics"):
        beijing.load()
    content = archive()
    (cache / beijing.ARCHIVE).write_bytes(content)
    monkeypatch.setitem(download.CHECKSUMS, beijing.ARCHIVE, sha256(content).hexdigest())
    assert len(beijing.load().y) == 3


@pytest.mark.parametrize("content", [b"no archive", archive(inner="other.zip"), archive([("Tiantan", ["1,2"])])])
def test_another_archive_is_refused_in_one_line(tmp_path, content):
    (tmp_path / beijing.ARCHIVE).write_bytes(content)
    with pytest.raises(InvalidInput, match=r"must be UCI's archive of the stations; it is not: .+") as refused:
        beijing.load(tmp_path)
    assert "\n" not in str(refused.value)


def test_the_prepared_file_has_the_same_features():
    path = Path(os.environ.get("DEGROOT_DATA") or Path(__file__).parents[3] / "shared" / "data") / beijing.NPZ
    if not path.exists():
        pytest.skip(f"there is no {beijing.NPZ} at hand")
    with np.load(path) as prepared:
        assert tuple(prepared["feature_names"].tolist()) == beijing.FEATURES
    found = beijing.read(path)
    assert found.X.shape == (412029, len(beijing.FEATURES))
    assert len(np.unique(found.station)) == 12
