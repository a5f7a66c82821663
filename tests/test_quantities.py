"""Numbers with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.quantities import quantity


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("rtt_p50_ns", 40_000_000, "40.00 ms"),
        ("convergence_ns", None, "–"),  # noqa: RUF001
        ("convergence_ns", 12_500_000_000, "12.50 s"),
        ("goodput_bps", 48_123_456, "48.12 Mbit/s"),
        ("goodput_bps", 0, "0 bit/s"),
        ("queue_max_bytes", 250_000, "250.0 kB"),
        ("loss_ratio", 0.0123, "1.230 %"),
        ("jain_ratio", 0.98765, "0.9877"),
        ("jain_ratio", 0.99996, "1.000"),
        ("rto_count", 12_345, "12,345"),
        ("rtt_p50_ns", float("nan"), "–"),  # noqa: RUF001
    ],
)
def test_quantity(name: str, value: float | None, text: str) -> None:
    assert quantity(name, value) == text


@given(st.floats(1.0, 1e18))
def test_four_digits_are_kept(value: float) -> None:
    text, unit = quantity("goodput_bps", value).split()
    size = {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "Tbit/s": 1e12}[unit]
    assert float(text.replace(",", "")) * size == pytest.approx(value, rel=1e-3)
