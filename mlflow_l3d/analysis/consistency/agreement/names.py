"""Scoring functions by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from mlflow_l3d.analysis.consistency.agreement.base import Scoring
from mlflow_l3d.analysis.consistency.agreement.matching import EntityF1, ExactMatch, TokenMatch
from mlflow_l3d.analysis.consistency.agreement.rankings import Ndcg, Overlap, RankBiasedOverlap
from mlflow_l3d.analysis.consistency.agreement.structures import Attachment, Closeness, SetF1
from mlflow_l3d.analysis.consistency.agreement.texts import ROUGE_KINDS, Bleu, Chrf, Rouge, SquadExact, SquadF1
from mlflow_l3d.errors import ParameterError, unknown_name

SCORINGS: Final[dict[str, Callable[..., Scoring]]] = {
    "exact_match": ExactMatch,
    "closeness": Closeness,
    "bleu": Bleu,
    "chrf": Chrf,
    **{kind: partial(Rouge, kind) for kind in ROUGE_KINDS},
    "token_match": TokenMatch,
    "entity_f1": EntityF1,
    "set_f1": SetF1,
    "las": lambda: Attachment(labelled=True),
    "uas": lambda: Attachment(labelled=False),
    "squad_exact": SquadExact,
    "squad_f1": SquadF1,
    "overlap": Overlap,
    "rbo": RankBiasedOverlap,
    "ndcg": Ndcg,
}
"""Name -> what makes the scoring function."""


def scoring(name: str, **options: Any) -> Scoring:
    """Return the scoring function of that name.

    Parameters
    ----------
    name
        A key of :data:`SCORINGS`.
    options
        Its parameters: `scale` of closeness, `k` of overlap and ndcg, `p` of rbo, `stemmer` and `tokenizer` of rouge.

    Raises
    ------
    ParameterError
        If the name is not known, or an option is missing or has no effect.
    """
    if name not in SCORINGS:
        raise unknown_name("scoring", str(name), SCORINGS)
    make = SCORINGS[name]
    known = inspect.signature(make).parameters
    wrong = [option for option in options if option not in known]
    missing = [key for key, one in known.items() if one.default is inspect.Parameter.empty and key not in options]
    if wrong or missing:
        allowed = f"{name} takes {', '.join(known) or 'no options'}"
        raise ParameterError("options", ", ".join(wrong or missing), allowed, "Is one missing?" if missing else "")
    return make(**options)
