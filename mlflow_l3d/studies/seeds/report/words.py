"""What a seeds study answers, in sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

from mlflow_l3d.analysis.consistency.examples import FEWEST_EXAMPLES
from mlflow_l3d.analysis.intervals import unseen_share
from mlflow_l3d.report.numbers import (
    MISSING,
    between,
    counted,
    percent,
    plain,
    points,
    probability,
    shorten,
    signed,
    unit_of,
)
from mlflow_l3d.report.text import Answer
from mlflow_l3d.studies.seeds.numbers.friedman import POWER
from mlflow_l3d.studies.seeds.numbers.over_tasks import ModelOverTasks
from mlflow_l3d.studies.seeds.numbers.study import SeedsStudy

_MOVED_BY_FEW: Final = (
    "VAR then says how often training fails, and the interval of robust examples is too narrow: it covers about 70 %."
)


def study_answers(study: SeedsStudy) -> tuple[Answer, Answer, Answer]:
    """Return what one study says about the score, about single predictions, and about the seeds themselves."""
    first, second, third = (_in_unit(study, answer) for answer in (_score(study), _predictions(study), _seeds(study)))
    if study.settings is not None:
        question = f"How much do runs differ ({study.metric}), and which setting moves them?"
        first = Answer(question, first.short, (*first.sentences, *settings_sentences(study)))
    return first, second, third


def _in_unit(study: SeedsStudy, answer: Answer) -> Answer:
    question, short = in_unit(study, answer.question), in_unit(study, answer.short)
    return Answer(question, short, tuple(in_unit(study, sentence) for sentence in answer.sentences))


def in_unit(study: SeedsStudy, text: str) -> str:
    """Return a text about seeds as one about runs, if these differ in more than a seed."""
    return text if study.unit == "seed" else re.sub(r"(?<![\w_])seed(s?)(?![\w_])", rf"{study.unit}\1", text)


def settings_sentences(study: SeedsStudy) -> tuple[str, ...]:
    """Return which recorded settings move the score, and what the runs cannot tell."""
    if study.settings is None:
        return ()
    shown, moving, frame = unit_of(study.metric).text, study.settings.found, study.settings.frame
    sentences = [
        f"{row['setting']} moves it (p {probability(row['p_holm'])}, adjusted): {shown(row['highest_mean'])} at "
        f"{shorten(row['highest'], 40)}, {shown(row['lowest_mean'])} at {shorten(row['lowest'], 40)}."
        for row in frame[frame["setting"].isin(moving)].to_dict("records")
    ]
    others = frame.loc[frame["p_holm"] > 0, "setting"][lambda names: ~names.isin(moving)].tolist()
    if others:
        sentences.append(f"Of {', '.join(others)} no effect is found.")
    if moving:
        sentences.append("Intervals over runs take them for independent, which runs that share such a setting are not.")
    return (*sentences, *study.settings.cannot_tell)


def _score(study: SeedsStudy) -> Answer:
    question = f"How much does the seed move the score ({study.metric})?"
    scores, shown = study.own, unit_of(study.metric).text
    if math.isnan(scores.var):
        return Answer(question, MISSING, ("Fewer than two seeds have a score.",))
    sentences = [
        f"{scores.runs} seeds score {shown(scores.mean)} on average, from {shown(scores.lowest)} to "
        f"{shown(scores.highest)}."
    ]
    if (spread := between(scores.std_ci_low, scores.std_ci_high, shown)) != MISSING:
        sentences.append(f"All seeds would have a standard deviation of {spread} (95 %).")
    population = study.together.get("accuracy_std_population", math.nan)
    if study.metric.name == "accuracy" and not math.isnan(population):
        sentences.append(
            f"Of the std of {shown(scores.std)}, {shown(population)} would be left on an endless test set; the rest "
            "comes with these examples."
        )
    return Answer(question, f"VAR {shown(scores.var)}", tuple(sentences))


def _predictions(study: SeedsStudy) -> Answer:
    question = "Are single predictions stable?"
    if study.examples is not None and 0 < len(study.examples.frame) < FEWEST_EXAMPLES:
        few = counted(len(study.examples.frame), "test example")
        few += f", and at least {FEWEST_EXAMPLES} are needed"
        return Answer(question, MISSING, (f"How far seeds agree is not reported: there are {few}.",))
    if study.examples is not None:
        seeds, seen = len(study.compared), len(study.examples.frame)
        con, ccon = (points(study.pairs[name].mean, 1) for name in ("consistency", "correct_consistency"))
        sentences = [
            f"Two seeds give {con} % of the {seen:,} examples the same answer, {ccon} % the right one (mean over "
            f"{counted(seeds * (seeds - 1) // 2, 'pair')}).",
            f"{points(study.examples.robust_share, 1)} % are right under every seed (robust"
            f"{_limits(study, 'robust_share', lambda share: points(share, 1), ', ')}), "
            f"{points(study.examples.fragile_share, 1)} % under some (fragile), "
            f"{points(study.examples.never_right_share, 1)} % under none.",
        ]
        if (kappa := study.together.get("fleiss_kappa")) is not None:
            sentences.append(
                f"Agreement beyond chance (kappa) is {plain(kappa)}{_limits(study, 'fleiss_kappa', plain)}."
            )
        return Answer(question, f"{con} % agree", tuple(sentences))
    if "absolute_difference" in study.together:
        pearson, ccc = (plain(study.pairs[f"consistency_{kind}"].mean, 3) for kind in ("pearson", "ccc"))
        sentences = [
            f"The numbers of two seeds correlate with {pearson} and agree with {ccc} (Lin).",
            f"They lie {plain(study.together['absolute_difference'], 3)} apart on average, in the unit of the labels.",
        ]
        return Answer(question, f"CON-PEAR {pearson}", tuple(sentences))
    return Answer(question, MISSING, ("The runs have no predictions.",))


def _limits(study: SeedsStudy, name: str, shown: Callable[[float], str], before: str = "") -> str:
    """Return the interval of a number in a sentence; the empty text where it has none."""
    limits = between(*study.intervals.get(name, (math.nan, math.nan)), shown)
    return "" if limits == MISSING else f"{before}{limits}" if before else f" ({limits})"


def _seeds(study: SeedsStudy) -> Answer:
    sentences = []
    if study.collapsed_seeds:
        level = math.nan if study.chance is None else study.chance
        low = "" if math.isnan(level) else f"score at or below chance ({unit_of(study.metric).text(level)}) or "
        sentences.append(f"Seeds that {low}give every example the same prediction: {_list(study.collapsed_seeds)}.")
        sentences += [_MOVED_BY_FEW] * (len(study.collapsed_seeds) < study.judged)
    elif study.judged:
        sentences.append(
            f"With {study.judged} seeds that all train, up to {points(unseen_share(study.judged, 0.95), 0)} % of all "
            "seeds may collapse. The intervals here are about those that do not."
        )
    if study.unanswered_seeds:
        sentences.append(
            f"Half of the predictions or more name no class of the task: {_list(study.unanswered_seeds)}. Whether "
            "these seeds trained is not known."
        )
    if study.missing_seeds:
        sentences.append(f"Seeds without a score: {_list(study.missing_seeds)}.")
    scores = study.scores[study.metric.name].dropna()
    if study.unit == "seed" and len(scores) and 42 in scores.index:
        place = int((scores > scores.loc[42]).sum()) + 1
        sentences.append(f"Seed 42 has the score of rank {place} of {len(scores)}, the highest being 1.")
    collapsed = len(study.collapsed_seeds) or "none"
    short = f"{collapsed} of {study.judged} collapsed" if study.judged else "not known"
    return Answer("Did every seed train?", short, tuple(sentences) or ("Every seed has a score.",))


def _list(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def over_answers(models: Sequence[ModelOverTasks]) -> tuple[Answer, Answer, Answer]:
    """Return what the tasks say: where the seed matters most, whether one is better, whether training size helps."""
    where, better, size = [], [], []
    tasks, found, slopes = [], [], []
    for model in models:
        name = f"{model.model}: " if len(models) > 1 and model.model else ""
        rows = model.rows.dropna(subset=["var"]).sort_values("var", ascending=False, kind="stable")
        if len(rows):
            tasks.append(str(rows["task"].iloc[0]))
            listed = [f"{task} {points(var)}" for task, var in zip(rows["task"], rows["var"], strict=True)]
            where.append(f"{name}Largest VAR: {', '.join(listed[:3])}; smallest: {listed[-1]}.")
        if model.better_seed is not None and not math.isnan(model.better_seed.p):
            found.append(model.better_seed.found)
            better.append(name + better_sentences(model)[0])
        slope = model.correlations.query("measure == 'var' and scale == 'log'").iloc[0]
        low, high = float(slope["pearson_ci_low"]), float(slope["pearson_ci_high"])
        if not math.isnan(low):
            slopes.append((float(slope["pearson"]), high < 0 or low > 0))
            numbers = f"{signed(slopes[-1][0])} ({between(low, high)}), over {slope['tasks']} tasks"
            size.append(f"{name}The log of the size correlates with VAR at {numbers}.")
    down = [pearson < 0 for pearson, _ in slopes]
    direction = "yes" if all(down) else "it depends" if any(down) else "no"
    settled = _count([sure for _, sure in slopes], "not settled", direction)
    return (
        Answer("Where does the seed matter most?", " / ".join(dict.fromkeys(tasks)) or MISSING, tuple(where)),
        Answer(
            "Is there a better seed?",
            _count(found, "none found", "yes") if found else MISSING,
            tuple(better) or ("One task alone cannot show it.",),
        ),
        Answer(
            "Do larger training sets make it matter less?",
            settled if slopes else MISSING,
            tuple(size) or ("Too few tasks have a known training size.",),
        ),
    )


def _count(found: Sequence[bool], none: str, every: str) -> str:
    """Return for how many of the models something was found."""
    return none if not any(found) else every if all(found) else f"for {sum(found)} of {len(found)} models"


def better_sentences(model: ModelOverTasks) -> tuple[str, ...]:
    """Return what the tasks say together about better seeds, effect sizes first."""
    better, power = model.better_seed, model.power
    if better is None or math.isnan(better.p):
        return ("A better seed can be looked for on two tasks or more that share two seeds or more.",)
    verdict = "some seed is better than others" if better.found else "no seed is found to be better than others"
    limits = between(better.kendall_w_ci_low, better.kendall_w_ci_high, plain)
    ranks = better.of_seeds.set_index("seed")["mean_rank"]
    sentences = [
        f"Over {len(better.tasks)} tasks and {len(better.seeds)} seeds, {verdict} (Friedman's test, p "
        f"{probability(better.p)}).",
        f"Effect size: Kendall's W {plain(better.kendall_w)} ({percent(better.level)}: {limits}); chance alone gives "
        f"{plain(1 / len(better.tasks))}. The rankings of two tasks correlate with {signed(better.rank_correlation)} "
        "on average.",
        f"Best mean rank: seed {ranks.index[0]} ({plain(ranks.iloc[0])}).",
    ]
    if better.named_seed is not None:
        mean = float(ranks.loc[better.named_seed])
        sentences.append(
            f"Seed {better.named_seed}: mean rank {plain(mean)}, {int((ranks < mean).sum()) + 1} of {len(ranks)}; "
            f"taken by itself it differs from any seed with p {probability(better.named_p)}."
        )
    if power is not None:
        size = f"{len(better.tasks)} tasks and {len(better.seeds)} seeds"
        sentences.append(
            f"{size} find one better seed in {percent(POWER)} of studies if it is {plain(power.one_better)} "
            f"standard deviations better on every task (W about {plain(power.kendall_w)}); a smaller advantage is "
            "likely missed."
            if not math.isnan(power.one_better)
            else f"{size} are too few to find a better seed in {percent(POWER)} of studies, however good it is."
        )
    return tuple(sentences)
