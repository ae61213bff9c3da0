"""Agreement of judges against published tables, and rows whose verdict changes."""

import numpy as np
import pandas as pd
import pytest
from judged_app import App
from statsmodels.stats.inter_rater import cohens_kappa

from mlflow_l3d.analysis.judged.repeated import judge_agreement, unstable_rows

COHEN = ((88, 10, 2), (14, 40, 6), (18, 10, 12))
"""Cohen (1960): 200 patients in three classes by two judges."""
FLEISS = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""
"""Fleiss (1971): 30 patients by six psychiatrists in five classes."""
KRIPPENDORFF = """
* * * * * 3 4 1 2 1 1 3 3 * 3
1 * 2 1 3 3 4 3 * * * * * * *
* * 2 1 3 4 4 * 2 1 1 3 3 * 4
"""
"""Krippendorff (2004): alpha .811 for intervals."""


def table_of(verdicts):
    """Return a table of judgements of (answer, judge, value)."""
    table = pd.DataFrame(verdicts, columns=["answer", "judge", "value"])
    return table.assign(row=table["answer"])


@pytest.mark.parametrize("classes", [(0, 1, 2), (0, 0, 1), (1, 0, 0)])
def test_two_judges_have_the_kappa_of_cohen(classes):
    cells = [(classes[i], classes[j]) for i in range(3) for j in range(3) for _ in range(COHEN[i][j])]
    table = table_of([(number, judge, cell[judge]) for number, cell in enumerate(cells) for judge in (0, 1)])
    ((_, pair),) = judge_agreement(table).iterrows()
    assert pair["equal"] == pytest.approx(np.mean([one == other for one, other in cells]))
    known = cohens_kappa(pd.crosstab(*np.array(cells).T), wt="quadratic")
    assert pair["kappa"] == pytest.approx(known.kappa)
    assert (pair["low"], pair["high"]) == pytest.approx((known.kappa_low, known.kappa_upp), abs=0.02)


def test_all_judges_have_the_kappa_of_each_class_that_fleiss_published():
    for number, published in enumerate((0.245, 0.245, 0.520, 0.471, 0.566)):
        counts = [int(each[number]) for each in FLEISS.split()]
        verdicts = [(answer, judge, judge < count) for answer, count in enumerate(counts) for judge in range(6)]
        everyone = judge_agreement(table_of(verdicts)).iloc[0]
        # Krippendorff's alpha draws chance pairs without replacement; Fleiss draws them with.
        assert 1 - (1 - everyone["kappa"]) * 180 / 179 == pytest.approx(published, abs=5e-4)


def test_missing_verdicts_give_the_alpha_that_krippendorff_published():
    values = pd.DataFrame([line.split() for line in KRIPPENDORFF.strip().splitlines()]).replace("*", np.nan)
    verdicts = [(answer, judge, float(value)) for (judge, answer), value in values.stack().dropna().items()]
    everyone = judge_agreement(table_of(verdicts)).iloc[0]
    assert everyone["kappa"] == pytest.approx(0.811, abs=5e-4)
    assert everyone["answers"] == 12


def test_one_verdict_only_is_no_agreement_beyond_chance():
    table = App(threshold=0.0).draw(np.random.default_rng(0), 20, 2, 2)
    same = judge_agreement(table.assign(value=1.0)).iloc[0]
    assert (same["equal"], np.isnan(same["kappa"])) == (1, True)
    lenient = judge_agreement(table.assign(value=table["value"].where(table["judge"] > 0, 1.0))).iloc[0]
    assert lenient["kappa"] == pytest.approx(0)
    assert lenient["note"] == "one judge always gives the same verdict"


def test_a_judge_is_compared_with_itself():
    table = App(threshold=0.0).draw(np.random.default_rng(0), 30, 1, 1)
    again = table.assign(judgement=1, value=np.where(table["row"] < 3, 1 - table["value"], table["value"]))
    lines = judge_agreement(pd.concat([table, again]))
    assert list(zip(lines["first"], lines["second"], strict=True)) == [("0", "0")]
    assert lines["equal"][0] == pytest.approx(0.9)


def test_intervals_of_kappa_count_answers_to_one_row_as_a_cluster():
    once = App(judge=0.0, threshold=0.0).draw(np.random.default_rng(1), 40, 1, 2)
    copies = pd.concat([once.assign(answer=once["answer"] + f", copy {number}") for number in range(5)])
    tables = once, copies, copies.assign(row=copies["answer"])
    alone, of_rows, apart = (judge_agreement(table).iloc[0][["low", "high"]].tolist() for table in tables)
    assert judge_agreement(copies).iloc[0][["rows", "answers"]].tolist() == [40, 200]
    assert of_rows == pytest.approx(alone)  # copies of an answer are no further evidence
    assert apart[1] - apart[0] < 0.5 * (of_rows[1] - of_rows[0])


def test_rows_that_change_are_listed_by_what_changes_them():
    verdicts = {
        ("calm", 0): (1, 1), ("calm", 1): (1, 1),
        ("answers", 0): (1, 1), ("answers", 1): (0, 0),
        ("judges", 0): (1, 0), ("judges", 1): (1, 0),
    }  # fmt: skip
    lines = [(row, f"{row}{n}", judge, v) for (row, n), both in verdicts.items() for judge, v in enumerate(both)]
    changing = unstable_rows(pd.DataFrame(lines, columns=["row", "answer", "judge", "value"])).set_index("row")
    assert list(changing.index) == ["answers", "judges"]
    assert changing["over_repeats"].to_dict() == {"answers": 1, "judges": 0}
    assert changing["over_judges"].to_dict() == {"answers": 0, "judges": 1}
    assert changing["over_judgements"].isna().all()
    assert changing["mean"].tolist() == [0.5, 0.5]


def test_answers_to_several_prompts_are_not_repeats():
    table = table_of([(0, "exact", 1), (1, "exact", 0)]).assign(row="a")
    assert unstable_rows(table)["over_repeats"].tolist() == [1]
    assert unstable_rows(table.assign(prompt=["first", "second"])).empty
