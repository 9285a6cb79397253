"""The ledger's promises: every byte under its purpose, and the peak never forgotten."""

from engine.gpu.ledger import Ledger, Purpose


def test_totals_are_kept_by_purpose() -> None:
    ledger = Ledger()
    ledger.add(Purpose.WEIGHTS, 100)
    ledger.add(Purpose.KV_CACHE, 20)
    ledger.remove(Purpose.WEIGHTS, 40)
    totals = ledger.totals()
    assert totals.by_purpose[Purpose.WEIGHTS] == 60
    assert totals.by_purpose[Purpose.KV_CACHE] == 20
    assert (totals.total, totals.peak) == (80, 120)


def test_a_new_peak_starts_from_what_is_held() -> None:
    ledger = Ledger()
    ledger.add(Purpose.OTHER, 50)
    ledger.remove(Purpose.OTHER, 30)
    ledger.reset_peak()
    assert ledger.totals().peak == 20
