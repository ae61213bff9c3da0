"""Which classes are told apart, where an approach lets the user choose."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_l3d.errors import ParameterError


def chosen_classes(text: str, class_names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the classes that ``classes`` names, in label order.

    Raises
    ------
    ParameterError
        If one is unknown or named twice, or there are fewer than two.
    """
    if text == "all":
        return tuple(range(len(class_names)))
    numbers = []
    for part in (piece.strip() for piece in text.split("+")):
        if part in class_names:
            numbers.append(list(class_names).index(part))
        elif part.isdecimal() and len(part) < 10 and int(part) < len(class_names):
            numbers.append(int(part))
        else:
            known = ", ".join(f"{at} {name}" for at, name in enumerate(class_names))
            raise ParameterError("hyperparameters.classes", text, f"{part!r} is none of the classes {known}")
    if len(set(numbers)) < len(numbers) or len(numbers) < 2:
        raise ParameterError("hyperparameters.classes", text, "must name two different classes at least, each once")
    return tuple(sorted(numbers))
