"""Which errors leave the accelerator of a process unusable."""

import pytest

from mlflow_l3d.approaches.failures import LostDeviceError, check_device, failed, is_out_of_memory
from mlflow_l3d.errors import L3DError

ILLEGAL = "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported later."


class AcceleratorError(RuntimeError):
    """As torch has it."""


class OutOfMemoryError(RuntimeError):
    """As torch has it."""


@pytest.mark.parametrize("error", [AcceleratorError(ILLEGAL), RuntimeError("CUDA error: device-side assert triggered")])
def test_a_dead_context_is_no_failed_cell(error):
    with pytest.raises(LostDeviceError, match=r"^CUDA error: [a-z -]+$"):
        failed("key", error)
    wrapped = L3DError("the function raised it")
    wrapped.__cause__ = error
    with pytest.raises(LostDeviceError):
        failed("key", wrapped)


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
        AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_spent_memory_is_a_failed_cell(error):
    check_device(error)
    assert is_out_of_memory(error)
    assert failed("key", error).error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 2 GiB. GPU 0 has 80 GiB. Process 7 has 3 GiB in use."
            ),
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.",
        ),
        (
            RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation, but you set 'torch.use"),
            "cumsum_cuda_kernel computes other results each time on a GPU. Use deterministic=false.",
        ),
    ],
)
def test_long_errors_of_torch_are_one_line(error, said):
    assert failed("key", error).error == said


def test_other_errors_are_failed_cells():
    assert failed("key", ValueError("CUDA error: says a text of the user")).error
    assert failed("key", RuntimeError("the words CUDA error: stand in the middle")).error
