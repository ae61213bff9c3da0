"""How cells are laid out: crossed (published), nested and radial designs, and the baseline strategies.

Every design is immutable and pure: it opens nothing and draws nothing. The configurations of a cell depend on where the
cell stands and not on the size of the design, so that a larger design holds the cells of the smaller one.
"""

from mlflow_l3d.plan.designs.base import Design, TableDesign
from mlflow_l3d.plan.designs.crossed import CrossedDesign
from mlflow_l3d.plan.designs.joint import factor_members, joint_name
from mlflow_l3d.plan.designs.nested import NestedDesign
from mlflow_l3d.plan.designs.radial import RadialDesign
from mlflow_l3d.plan.designs.strategies import FixedDesign, RandomDesign

__all__ = [
    "CrossedDesign",
    "Design",
    "FixedDesign",
    "NestedDesign",
    "RadialDesign",
    "RandomDesign",
    "TableDesign",
    "factor_members",
    "joint_name",
]
