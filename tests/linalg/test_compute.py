"""How to compute is one frozen value; memory is asked for before it is taken."""

import dataclasses

import pytest

import itergp.linalg.compute as compute
from itergp import Compute, InputError, MemoryLimitError


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (0, 0),
        (123, 123),
        ("123", 123),
        ("4GB", 4 * 10**9),
        ("500 MB", 5 * 10**8),
        ("2GiB", 2**31),
        ("1.5k", 1500),
        (" 7 ki b", None),
        ("\u0663GB", None),
    ],
)
def test_bytes_are_read_as_people_write_them(text, number):
    if number is None:
        with pytest.raises(InputError, match="cache"):
            Compute(cache=text)
    else:
        assert Compute(cache=text).cache_bytes() == number


def test_an_automatic_cache_takes_a_quarter_of_what_is_available(monkeypatch):
    monkeypatch.setattr(compute, "available_bytes", lambda: 4000)
    assert Compute().cache_bytes() == 1000


def test_what_is_available_is_a_positive_number():
    assert compute.available_bytes() > 10**6


def test_work_that_does_not_fit_is_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(compute, "available_bytes", lambda: 3 * 10**9)
    compute.require_bytes(2e9, "This", "Do that.")
    with pytest.raises(MemoryLimitError, match=r"This needs about 5.0 GB; 3.0 GB are available. Do that."):
        compute.require_bytes(5e9, "This", "Do that.")


def test_compute_is_frozen_and_compares_by_value():
    assert Compute(cache="1GB") == Compute(cache=10**9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Compute().dtype = "float32"


def test_small_amounts_of_memory_have_digits_too(monkeypatch):
    monkeypatch.setattr(compute, "available_bytes", lambda: 12_300_000)
    with pytest.raises(MemoryLimitError, match=r"This needs about 0.25 GB; 0.012 GB are available."):
        compute.require_bytes(2.5e8, "This", "Do that.")
