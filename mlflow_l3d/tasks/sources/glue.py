"""The other tasks of Zhou et al. (2025): five of GLUE and seven of SuperGLUE, as pairs of texts, scores and choices.

The authors fine-tune with a script like ``run_glue.py`` of Hugging Face on files of their own (section 4) and describe
how they joined the texts for MultiRC and COPA only (appendix A.2). For the other tasks the texts here are the
published columns. Each task below says which columns it joins.
"""

from __future__ import annotations

from typing import Final

from mlflow_l3d.tasks.sources.benchmark_set import Benchmark, Columns, cola, mrpc, sst2

QUESTIONS: Final = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
"""Questions of COPA about a premise (Roemmele, Bejan and Gordon 2011); its column `question` holds the one word."""

_ENTAILMENT: Final = ("entailment", "not_entailment")
_TRUTH: Final = ("False", "True")


def question_and_answer(columns: Columns) -> Columns:
    """Return MultiRC's paragraph as the first text, and question and answer, with a blank between, as the second.

    One example is one pair of question and answer (Zhou et al. 2025, appendix A.2), which is right or wrong on its own.
    """
    paragraphs, questions, answers = columns
    return paragraphs, [f"{question} {answer}" for question, answer in zip(questions, answers, strict=True)]


def word_first(columns: Columns) -> Columns:
    """Return WiC's pair of sentences, the first one after the word and a colon: ``word: sentence``.

    The task asks whether the word means the same in both. A script like ``run_glue.py``, given a file that has the
    columns `sentence1` and `sentence2`, uses these two and leaves the word out; the authors do not say whether they did
    so. Here the word stays, since without it a model has to guess the question.
    """
    words, first, second = columns
    return [f"{word}: {sentence}" for word, sentence in zip(words, first, strict=True)], second


def premise_and_question(columns: Columns) -> Columns:
    """Return COPA's context: the premise and the question about it in words, with a blank between.

    The authors put premise, question and choice one after another with a separating token (Zhou et al. 2025, appendix
    A.2). Here the context is one text, so that an encoder sees it and a choice as a pair, with its own separating token
    between the two. A question that is none of COPA's two words stays unchanged.
    """
    pairs = zip(*columns, strict=True)
    return [[f"{premise.strip()} {QUESTIONS.get(question, question)}" for premise, question in pairs]]


_SENTENCES: Final = ("sentence1", "sentence2")

qnli: Final = Benchmark("qnli", _ENTAILMENT, "nyu-mll/glue/qnli", ("question", "sentence"))
qqp: Final = Benchmark("qqp", ("not_duplicate", "duplicate"), "nyu-mll/glue/qqp", ("question1", "question2"))
rte: Final = Benchmark("rte", _ENTAILMENT, "nyu-mll/glue/rte", _SENTENCES)
stsb: Final = Benchmark("stsb", (), "nyu-mll/glue/stsb", _SENTENCES, kind="regression", metric="pearson")

boolq: Final = Benchmark("boolq", _TRUTH, "aps/super_glue/boolq", ("question", "passage"))
cb: Final = Benchmark("cb", ("entailment", "contradiction", "neutral"), "aps/super_glue/cb", ("premise", "hypothesis"))
# The same data as `rte`: only the hyperparameters differ in the paper (its appendix, tables 4 to 6).
rte_superglue: Final = Benchmark(
    "rte_superglue", _ENTAILMENT, "aps/super_glue/rte", _SENTENCES, ("premise", "hypothesis"), file="rte"
)
multirc: Final = Benchmark(
    "multirc", _TRUTH, "aps/super_glue/multirc", ("paragraph", "question", "answer"), prepared=question_and_answer
)
wic: Final = Benchmark("wic", _TRUTH, "aps/super_glue/wic", ("word", *_SENTENCES), prepared=word_first)
copa: Final = Benchmark(
    "copa",
    ("choice1", "choice2"),
    "aps/super_glue/copa",
    ("premise", "question"),
    kind="multiple_choice",
    prepared=premise_and_question,
)

STUDY: Final = (mrpc, qnli, qqp, sst2, rte, cola, stsb, boolq, cb, rte_superglue, multirc, wic, copa)
"""The data sets of the paper, in its order (its tables 1, 4 and 5)."""


def benchmark_of(name: str) -> str:
    """Return the benchmark, GLUE or SuperGLUE, from which the study takes a task of this name; empty for another."""
    hub = next((each.hub for each in STUDY if each.name == name), "")
    return "GLUE" if "/glue/" in hub else "SuperGLUE" if hub else ""
