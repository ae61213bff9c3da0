"""What investigations of the synthetic approach tend to with many runs, in closed form."""

import math
from collections.abc import Mapping

from mlflow_l3d.approaches.hyperparameters import Value
from mlflow_l3d.approaches.synthetic import FACTORS, sensitivities


def total_sobol_indices(hyperparameters: Mapping[str, Value]) -> dict[str, float]:
    r"""Return the total Sobol index S_T of every factor, in closed form.

    With :math:`V_k = 1 / (3 (1 + a_k)^2)`, :math:`V_e = noise^2 / 3` and
    :math:`P = (1 + V_e) \prod_k (1 + V_k)`, the score has variance :math:`P - 1` and
    :math:`S_{T,k} = (P - \prod_{j \ne k} (1 + V_j)) / (P - 1)`: noise is drawn anew whenever a factor changes, so it
    is part of the effect of each.

    Returns
    -------
    dict
        Factor -> share in ``[0, 1]``, 0 for a factor without effect.

    References
    ----------
    Sobol (2003); Saltelli et al. (2010), section 5, where noise is 0.
    """
    variances = {factor: 1.0 / (3.0 * (1.0 + a) ** 2) for factor, a in sensitivities(hyperparameters).items()}
    main = math.prod(1.0 + variance for variance in variances.values())
    whole = main * (1.0 + float(hyperparameters["noise"]) ** 2 / 3.0)
    shares = {factor: (whole - main / (1.0 + variance)) / (whole - 1.0) for factor, variance in variances.items()}
    return {factor: shares.get(factor, 0.0) for factor in FACTORS}


def true_importance_corrected(hyperparameters: Mapping[str, Value]) -> dict[str, float]:
    """Return ``sqrt(S_T) - sqrt(1 - S_T)`` of every factor: what the corrected importance tends to with many runs."""
    indices = total_sobol_indices(hyperparameters)
    return {factor: math.sqrt(share) - math.sqrt(max(0.0, 1.0 - share)) for factor, share in indices.items()}


def true_importance(hyperparameters: Mapping[str, Value]) -> dict[str, float]:
    r"""Return what the published importance of every factor tends to with many runs, in closed form.

    A row multiplies all its scores by the product of its other factors, whose mean is 1. So the mean standard deviation
    within rows is :math:`\sqrt{(1 + V_k) (1 + V_e) - 1}`, while the root of the mean variance, by which the corrected
    importance goes, is larger: rows are unevenly spread. Row means have the variance
    :math:`\prod_{j \ne k} (1 + V_j) - 1`; notation as in :func:`total_sobol_indices`.
    """
    variances = {factor: 1.0 / (3.0 * (1.0 + a) ** 2) for factor, a in sensitivities(hyperparameters).items()}
    noise = 1.0 + float(hyperparameters["noise"]) ** 2 / 3.0
    main = math.prod(1.0 + variance for variance in variances.values())
    whole = math.sqrt(main * noise - 1.0)
    found = {}
    for factor in FACTORS:
        own = 1.0 + variances.get(factor, 0.0)
        within = math.sqrt(own * noise - 1.0) if factor in variances else 0.0
        found[factor] = (within - math.sqrt(max(0.0, main / own - 1.0))) / whole
    return found
