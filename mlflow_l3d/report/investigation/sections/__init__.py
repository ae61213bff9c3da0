"""The tables of the report below the first one: what they show, as texts."""

from mlflow_l3d.report.investigation.sections.factors import (
    component_table,
    further_numbers,
    ranking_letters,
    ranking_tables,
)
from mlflow_l3d.report.investigation.sections.interim_analyses import interim_table
from mlflow_l3d.report.investigation.sections.predictions import agreement_table, fragile_table, prediction_pair, shares
from mlflow_l3d.report.investigation.sections.table import Table

__all__ = [
    "Table",
    "agreement_table",
    "component_table",
    "fragile_table",
    "further_numbers",
    "interim_table",
    "prediction_pair",
    "ranking_letters",
    "ranking_tables",
    "shares",
]
