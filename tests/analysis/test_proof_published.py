"""What the published tables of Pecher et al. 2024 imply beside Tables 6 to 14: the ablation, and the total spread."""

import math

import pandas as pd
from published_tables import fits, needs_tables, printed, read

pytestmark = needs_tables

TOTAL_BELOW_ITS_PARTS = {
    ("pecher2024_importance", "Prototypical Networks", "SST2", "model_initialisation"): "repeats the row above it",
    ("pecher2024_ablation", "500", "100%", "sample_choice"): "the paper's text has the same number",
}
"""Rows whose printed std of all runs is smaller than the contributed and the mitigated std allow, and why."""


def test_every_row_of_the_ablation_follows_from_its_stds():
    table = read("pecher2024_ablation")
    golden = {
        (row.mitigation_runs, row.test_size): row.f1_macro_std
        for row in table[table["factor"] == "golden_model"].itertuples()
    }
    rows = list(table[table["factor"] != "golden_model"].itertuples())
    assert (len(golden), len(rows)) == (6, 24)
    assert [row for row in rows if not fits(row, golden[row.mitigation_runs, row.test_size])] == []


def test_the_ablation_holds_the_main_table():
    """Column "100 runs, 100 %" of Table 3 is Table 6."""
    ablation, main = read("pecher2024_ablation"), read("pecher2024_importance")
    ablation = ablation[(ablation["mitigation_runs"] == "100") & (ablation["test_size"] == "100%")]
    main = main[(main["model"] == "Flan-T5") & (main["dataset"] == "SST2")]
    names = ["contributed_std", "mitigated_std", "importance", "f1_macro_std"]
    assert len(ablation) == 5
    pd.testing.assert_frame_equal(
        ablation.set_index("factor")[names].sort_index(), main.set_index("factor")[names].sort_index()
    )


def test_total_spread_is_no_smaller_than_its_parts_but_in_the_rows_listed():
    failing = set()
    for name, keys in (
        ("pecher2024_importance", ("model", "dataset", "factor")),
        ("pecher2024_ablation", ("mitigation_runs", "test_size", "factor")),
    ):
        table = read(name)
        for row in table[table["factor"] != "golden_model"].itertuples():
            parts = math.hypot(printed(row.contributed_std)[0], printed(row.mitigated_std)[0])
            if printed(row.f1_macro_std)[1] < parts:
                failing.add((name, *(getattr(row, key) for key in keys)))
    assert failing == set(TOTAL_BELOW_ITS_PARTS)
