"""Log-probabilities out of logits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

_SLICE = 2**24


def read_steps(
    logits: torch.Tensor, nodes: npt.NDArray[np.int64], tokens: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the log-probability of each token behind its node.

    Parameters
    ----------
    logits
        (n, nodes, vocabulary), any floating type; normalised in float32.
    nodes, tokens
        (S,) index of the node along the second axis, and the token to read there.

    Returns
    -------
    (n, S), natural logarithms.
    """
    where = torch.from_numpy(np.ascontiguousarray(nodes)).to(logits.device)
    what = torch.from_numpy(np.ascontiguousarray(tokens)).to(logits.device)
    parts = []
    # In slices, since a vocabulary is wide and each step here makes a copy.
    for part in torch.split(logits, max(1, _SLICE // logits[0].numel())):
        wide = part.float()
        parts.append(wide[:, where, what].double() - wide.logsumexp(dim=-1).double()[:, where])
    values: npt.NDArray[np.float64] = torch.cat(parts).cpu().numpy()
    return values
