"""The answer of a referee."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from mlflow_l3d.studies.referee.numbers.judge import Assessment, Verdict

_EXIT_STATUS = {"keep": 0, "reject": 1, "undecided": 2}


@dataclass(frozen=True)
class Judgement:
    """What a referee says of a candidate.

    Attributes
    ----------
    verdict
        ``keep``: it is better than the champion, and is the champion now. ``reject``: it is not, or by too little to be
        seen. ``undecided``: more runs are needed than were allowed.
    candidate, number
        What it is in a few words, and its place in the session, from 1.
    assessment
        The last look.
    spent, more
        Runs that this call made, those of the champion included; and how many more a decision is expected to take.
    confirmed, has_fresh_half
        Gain of the champion over the baseline by fresh runs, nan if there is none yet; and whether it is from test
        examples on which nothing was selected.
    failed
        Runs of the candidate without a score. If one fails where the champion's does not, the candidate is not kept.
    following
        Number of the next run of an undecided candidate: scores that are measured elsewhere continue there.
    champion
        The champion now, in a few words.
    run_id, candidate_run_id
        MLflow runs of the session and of the candidate.
    notes
        What to know of a candidate, or a champion, whose runs are not made here.
    """

    verdict: Verdict
    candidate: str
    number: int
    assessment: Assessment
    spent: int
    failed: int
    more: int
    following: int
    confirmed: float
    has_fresh_half: bool
    champion: str
    run_id: str
    candidate_run_id: str
    notes: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        """0 if the candidate was kept, 1 if it was rejected, 2 if that is not decided."""
        return _EXIT_STATUS[self.verdict]

    def to_json(self) -> str:
        """Return the answer as one line of JSON."""
        look = self.assessment
        numbers = {
            **{"gain": look.gain, "low": look.low, "high": look.high, "evidence": look.evidence},
            **{"needed": look.needed, "runs": look.runs, "spent": self.spent},
            **{"failed": self.failed, "more": self.more, "next": self.following, "confirmed": self.confirmed},
        }
        content = {
            **{"verdict": self.verdict, "candidate": self.candidate, "number": self.number},
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "confirmed_on": "the fresh half" if self.has_fresh_half else "the test examples that judge",
            **{"champion": self.champion, "referee": self.run_id, "run": self.candidate_run_id},
            **({"notes": list(self.notes)} if self.notes else {}),
        }
        return json.dumps(content)
