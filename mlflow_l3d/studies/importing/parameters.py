"""The parameters of `import`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypedDict

from mlflow_l3d.annotations import Of
from mlflow_l3d.parameters.declaration import Parameters, declared
from mlflow_l3d.parameters.shared import Settings
from mlflow_l3d.parameters.verbs import Verb


class ImportOptions(TypedDict, total=False):
    """Of `import`."""

    from_: Annotated[
        Literal["auto", "lm-eval", "inspect", "promptfoo", "tau-bench", "csv", "huggingface-trainer"],
        Of("auto", "tool that wrote the files (in Python `from_`); auto infers it from the files"),
    ]
    task: Annotated[
        str, Of("auto", "task to import; several, separated by commas, are variants with the same examples")
    ]
    metric: Annotated[
        str,
        Of(
            "auto",
            "metric of the runs; auto is the first that the tool recorded; for inspect also a scorer, or scorer.key",
        ),
    ]
    task_kind: Annotated[
        Literal["auto", "classification", "regression", "multiple_choice", "generation", "tagging", "ranking"],
        Of("auto", "csv: kind of labels and predictions; auto infers it"),
    ]
    classes: Annotated[
        str | Sequence[str], Of("auto", "csv: names of all classes, separated by |; auto uses those that occur")
    ]
    only: Annotated[Settings, Of("none", "import only runs with these settings: name=value pairs separated by commas")]
    columns: Annotated[
        Settings, Of("none", "csv: meaning of the columns, as example_id=id, prediction=answer, settings=seed+shots")
    ]


class _Imported(TypedDict):
    path: Annotated[str, Of("", "file, or folder that is searched for files")]


IMPORT: Final[Parameters] = declared(ImportOptions)
IMPORTED: Final[Parameters] = declared(_Imported)
"""The argument of `import`."""

VERB = Verb(
    "import-runs",
    IMPORT,
    "mlflow_l3d.studies.importing.run:import_runs",
    "import results of other tools as runs, and score them",
    is_study=False,
    in_project=False,
    words=IMPORTED,
    question="What do results of another tool show about luck?",
    examples=("import-runs results.csv", "import-runs logs --from lm-eval", "import-runs logs --task trec --metric f1"),
    order=110,
    returns=("mlflow_l3d.studies.importing.run:ImportedRuns",),
)
