"""One file: arrays and JSON text as safetensors, written completely or not at all, with a digest over every
byte.

The text is `{"digest": ..., "format": 1, "itergp": version, "kind": ..., "value": ...}` under the single
metadata key "itergp". The digest is the SHA-256 of the file with 64 zeros in place of the digest itself. So
it is checked before anything is parsed, and it covers every byte. Manifests are the same text alone.
"""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from safetensors import safe_open

from itergp import __version__
from itergp.errors import StorageError
from itergp.storage.replacing import irregular, replacing

Tensors = dict[str, Any]  # arrays, or `Pieces` of one that is not in memory as a whole

FORMAT = 1
KEY = "itergp"
_DTYPES = {
    f"{name}{bits}": f"{name[0].upper()}{bits}" for name in ("float", "int", "uint") for bits in (16, 32, 64)
}
_DTYPES |= {"int8": "I8", "uint8": "U8", "bool": "BOOL"}
_ZEROS = b"0" * 64
_MARK = b'{"digest":"'  # where the text begins; the digest follows
_MARK_IN_HEADER = b'{\\"digest\\":\\"'  # the same inside a JSON string
_HEADER_LIMIT = 100_000_000  # of the safetensors format itself
_CHUNK = 1 << 22
_ENTRIES = 1_000_000  # entries of the JSON text, in addition to one per number in the arrays


class Malformed(ValueError):  # noqa: N818 (a reason, which StorageError tells)
    """What is wrong with the content of a file; reported together with the file's name."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A float64 array that is written piece by piece, some rows at a time."""

    shape: tuple[int, ...]
    rows: Iterable[np.ndarray]
    dtype: ClassVar[np.dtype] = np.dtype("float64")
    itemsize: ClassVar[int] = 8

    @property
    def nbytes(self) -> int:
        return 8 * math.prod(self.shape)


def write(path: Path, kind: str, value: Any, tensors: Tensors) -> str:
    """Write arrays and a JSON value into one file, and return its digest. On failure raises OSError and
    leaves nothing behind.

    The format's own library is not used, because its temporary file has a name that cannot be cleaned up
    after a kill, and only the owner could read the result.
    """
    arrays = {
        name: _plain(tensors[name])
        for name in sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    }
    header = _header(_text(kind, value), arrays)
    pieces = (piece for array in arrays.values() for piece in _pieces(array))
    whole = hashlib.sha256()
    with replacing(path) as temporary, open(temporary, "wb") as file:
        for part in chain([len(header).to_bytes(8, "little"), header], pieces):
            whole.update(part)
            file.write(part)
        file.seek(8 + header.find(_MARK_IN_HEADER) + len(_MARK_IN_HEADER))
        file.write(whole.hexdigest().encode())
        _to_disk(file)
    return whole.hexdigest()


def _pieces(array: np.ndarray | Pieces) -> Iterator[Any]:
    """The bytes of an array."""
    for some in array.rows if isinstance(array, Pieces) else (array,):
        yield _plain(some).reshape(-1).view(np.uint8).data


def _plain(array: Any) -> Any:
    """Row by row, little-endian, as the format requires."""
    if isinstance(array, Pieces):
        return array
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _header(text: bytes, arrays: Tensors) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {KEY: text.decode()}}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        entries[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": (start, end),
        }
    header = json.dumps(entries, separators=(",", ":")).encode()
    return header + b" " * (-len(header) % 8)  # arrays are aligned to multiples of eight bytes


def read(path: Path, kind: str) -> tuple[Any, Tensors, str]:
    """The JSON value, the arrays and the digest of a file; StorageError if it is not exactly as written."""
    with reading(path), _opened(path) as file:
        digest, place = _digest(file)
        file.seek(place)
        if file.read(64) != digest:
            raise StorageError(
                f"{path} is damaged: its digest does not match its content. Use another copy, or create "
                "it again."
            )
        with safe_open(path, framework="np") as contents:
            if not os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                raise StorageError(f"{path} was replaced while it was being read; read it again.")
            value = _value(path, contents.metadata()[KEY], kind, size=os.fstat(file.fileno()).st_size)
            tensors = {name: contents.get_tensor(name) for name in contents.keys()}  # noqa: SIM118 (no mapping)
    return value, tensors, digest.decode()


def array_sizes(path: Path) -> dict[str, int]:
    """How many bytes each array of a file takes, the largest first. The arrays themselves are not read."""
    with reading(path), _opened(path), safe_open(path, framework="np") as contents:
        sizes = {}
        for name in contents.keys():  # noqa: SIM118 (no mapping)
            found = contents.get_slice(name)
            sizes[name] = math.prod(found.get_shape()) * int(found.get_dtype().strip("BFIU")) // 8
    return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def write_text(path: Path, kind: str, value: Any) -> None:
    """Write a JSON value to a file of its own, such as a manifest."""
    text = _text(kind, value)
    digest = hashlib.sha256(text).hexdigest().encode()
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(text.replace(_ZEROS, digest, 1))
        _to_disk(file)


def read_text(path: Path, kind: str) -> Any:
    """The JSON value of such a file; StorageError if it is not exactly as written."""
    with reading(path), _opened(path) as file:
        text = file.read()
        digest, zeroed = text[len(_MARK) : len(_MARK) + 64], _MARK + _ZEROS + text[len(_MARK) + 64 :]
        if not text.startswith(_MARK):
            raise StorageError(f"{path} was not written by this library.")
        if hashlib.sha256(zeroed).hexdigest().encode() != digest:
            raise StorageError(
                f"{path} is damaged: its digest does not match its content. Delete it to start over."
            )
        return _value(path, text.decode(), kind)


def array_digest(array: np.ndarray) -> str:
    """The SHA-256 of an array's shape, type and numbers."""
    array = _plain(array)
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _text(kind: str, value: Any) -> bytes:
    """Sorted and compact, so that the same value gives the same bytes; the keys make "digest" the first."""
    whole = {"digest": _ZEROS.decode(), "format": FORMAT, "itergp": __version__, "kind": kind, "value": value}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _value(path: Path, text: str, kind: str, size: int = 0) -> Any:
    """Parse the text. Its entries, which take far more memory than their characters, are counted first."""
    # one per number in the arrays, such as a count for each row
    most = _ENTRIES + (size - len(text)) // 8
    if text.count(",") > most:
        raise StorageError(
            f"{path} cannot be understood: its text has {text.count(','):,} entries; expected at most "
            f"{most:,}."
        )
    whole = json.loads(text, parse_constant=_no_number)
    if whole["format"] > FORMAT:
        raise StorageError(
            f"{path} has the format {whole['format']}, written by itergp {whole['itergp']}; this version "
            f"({__version__}) reads formats up to {FORMAT}. Upgrade itergp."
        )
    if whole["kind"] != kind:
        raise StorageError(f"{path} holds a {whole['kind']}; expected a {kind}.")
    return whole["value"]


def _no_number(text: str) -> float:
    raise Malformed(f"it says {text}, which is not a valid JSON number.")


def _opened(path: Path) -> BinaryIO:
    kind = irregular(path)
    if kind is not None:
        raise StorageError(f"{path} cannot be read: it is {kind}, not an ordinary file.")
    return open(path, "rb")


def _digest(file: BinaryIO) -> tuple[bytes, int]:
    """The expected digest of a safetensors file, and its position in the file."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    header = file.read(length) if len(start) == 8 and length <= _HEADER_LIMIT else b""
    place = header.find(_MARK_IN_HEADER) + len(_MARK_IN_HEADER)
    if len(header) < length or not header or place < len(_MARK_IN_HEADER):
        raise StorageError(f"{file.name} was not written by this library, or is truncated.")
    digest = hashlib.sha256(start + header[:place] + _ZEROS + header[place + 64 :])
    while some := file.read(_CHUNK):
        digest.update(some)
    return digest.hexdigest().encode(), 8 + place


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error of reading a file into a StorageError."""
    try:
        yield
    except (StorageError, MemoryError):
        raise
    except Malformed as error:
        raise StorageError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist.") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # from parsers: the digest is right, so a program wrote this, but not this one
        raise StorageError(f"{path} cannot be understood ({type(error).__name__}: {error}).") from error


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
