"""Twelve air-quality stations of Beijing, hour by hour: UCI's *Beijing Multi-Site Air-Quality*, the target PM2.5.

Zhang, Guo, Dong, He, Xu and Chen, *Cautionary tales on air-quality improvement in Beijing*, 2017. Not in the paper:
a large set whose stations are natural agents.
"""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.paper.data import download as site

ARCHIVE = "beijing+multi+site+air+quality+data.zip"  # as UCI calls it
INNER = "PRSA2017_Data_20130301-20170228.zip"  # the stations' files, in the archive
NPZ = "beijing_air.npz"  # the same, prepared
TARGET, WIND = "PM2.5", "wd"
PLAIN = ("year", "month", "hour", "TEMP", "PRES", "DEWP", "RAIN", "WSPM", "PM10", "SO2", "NO2", "CO", "O3")
FEATURES = (*PLAIN, "wd_sin", "wd_cos")
COMPASS = ("N", "NNE", "NE", "ENE", "E", "ESE", "SE", "SSE", "S", "SSW", "SW", "WSW", "W", "WNW", "NW", "NNW")


@dataclass(frozen=True, slots=True)
class Stations:
    """Hours of all stations whose PM2.5 is known. Features may be missing: NaN."""

    X: NDArray[np.float64]  # (n, 15) `FEATURES`
    y: NDArray[np.float64]  # (n,)
    station: NDArray[Any]  # (n,) names


def load(folder: Path | None = None, *, download: bool = False) -> Stations:
    """The stations' hours: from a file in `folder`, from an earlier download or, with `download`, from UCI's site."""
    for path in () if folder is None else (folder / NPZ, folder / ARCHIVE):
        if path.exists():
            return read(path)
    kept = site.kept(ARCHIVE) or (site.fetch(ARCHIVE) if download else None)
    if kept is None:
        raise InvalidInput(
            f"The stations' hours must be in a folder as {NPZ} or {ARCHIVE}, or be downloaded from "
            f"{site.address(ARCHIVE)}; they are not there."
        )
    return read(kept)


def read(path: Path) -> Stations:
    """The stations' hours in UCI's archive, or in an npz file with arrays X, y, group and group_names."""
    if path.suffix == ".npz":
        with np.load(path) as found:
            X, y = (found[name].astype(np.float64) for name in ("X", "y"))
            return Stations(X, y, found["group_names"][found["group"]])
    try:
        return _joined(path)
    except (BadZipFile, KeyError, ValueError) as error:
        raise InvalidInput(f"{path.name} must be UCI's archive of the stations; it is not: {error}") from error


def _joined(path: Path) -> Stations:
    """All stations, by name."""
    import pandas as pd

    with ZipFile(path) as archive, ZipFile(BytesIO(archive.read(INNER))) as inner:
        files = sorted(name for name in inner.namelist() if name.endswith(".csv"))
        hours = pd.concat([pd.read_csv(BytesIO(inner.read(name))) for name in files], ignore_index=True)
    hours = hours[hours[TARGET].notna()]
    if hours.empty:
        raise ValueError("it holds no hours")
    angle = hours[WIND].map(dict(zip(COMPASS, np.arange(len(COMPASS)) * (2 * np.pi / len(COMPASS)), strict=True)))
    X = np.column_stack([hours[list(PLAIN)].to_numpy(np.float64), np.sin(angle), np.cos(angle)])
    return Stations(X, hours[TARGET].to_numpy(np.float64), hours["station"].to_numpy(str))
