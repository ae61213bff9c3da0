"""How far a study of cells is: states, and which may follow which."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """How far a study of cells is."""

    PLANNED = "PLANNED"
    """Its parent is not open."""
    TRAINING = "TRAINING"
    CUT = "CUT"
    """The budget is not enough for its next cells: what is under way is recorded."""
    COMPLETE = "COMPLETE"
    INCOMPLETE = "INCOMPLETE"
    """What there is was scored, and cells are missing or failed."""
    KILLED = "KILLED"
    FAILED = "FAILED"

    def followed_by(self, state: State) -> State:
        """Return the next state.

        Raises
        ------
        ValueError
            If it cannot follow this one.
        """
        if state not in _NEXT.get(self, ()):
            raise ValueError(f"a study that is {self.value} cannot become {state.value}")
        return state


OPEN: Final = frozenset({State.TRAINING, State.CUT})
"""States in which the parent is open."""
OVER: Final = frozenset({State.COMPLETE, State.INCOMPLETE, State.KILLED, State.FAILED})
_NEXT: Final = {
    State.PLANNED: {State.TRAINING, State.COMPLETE, State.KILLED, State.FAILED},
    State.TRAINING: {State.CUT, *OVER},
    State.CUT: OVER,
}
"""State -> those that may follow; a study that is planned is complete if an earlier command completed it."""
