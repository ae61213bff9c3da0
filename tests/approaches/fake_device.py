"""A device for machines without one: numbers of the CPU, the rules of a GPU, and counts of what a GPU would wait for.

Its tensors hold one of the CPU and say that they are on ``fakegpu:0``. What CUDA refuses is refused here: operations
over tensors of two devices, the numpy array of a device's tensor, a generator of the host. What CUDA lets pass but pays
for, a copy or a wait, is counted with the line of ours that asked for it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map, tree_map_only

pytest.importorskip("torch", "2.10")  # Older ones let no device be written in Python.
NAME = "fakegpu"
aten = torch.ops.aten

MEMORY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view"}
"""Operations that start no kernel, beside views."""
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
"""The only operations of CUDA that take tensors of the CPU, as indices: they are copied each time."""
DRAWS = torch.Tag.nondeterministic_seeded
UNKNOWN = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Of operations after which the host waits: a number, or a size, that only the device knows."""


class WrongDeviceError(RuntimeError):
    """What CUDA says of tensors on two devices."""


class _Module:
    """What torch asks of ``torch.fakegpu``: one device, a generator of its own."""

    generator = torch.Generator()
    _is_in_bad_fork = staticmethod(lambda: False)
    is_available = is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)

    def manual_seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_rng_state(self, device=None) -> torch.Tensor:
        return self.generator.get_state()

    def set_rng_state(self, state, device=None) -> None:
        self.generator.set_state(state)


MODULE = _Module()
_accelerator = torch._C._accelerator_getAccelerator()
backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=MODULE)
# Who takes the device that there is, as checkpoints of activations do, finds what there was before.
torch._C._accelerator_getAccelerator = lambda: _accelerator
DEVICE = torch.device(NAME, 0)


class DeviceTensor(torch.Tensor):
    """A tensor of the device; `host` has its numbers, and views of it share them."""

    host: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> DeviceTensor:
        place = {"strides": host.stride(), "storage_offset": host.storage_offset(), "dtype": host.dtype}
        own = torch.Tensor._make_wrapper_subclass(cls, host.size(), **place, device=DEVICE)
        own.host = host
        return own

    def __repr__(self, *, tensor_contents=None) -> str:
        return f"DeviceTensor({self.host})"

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        raise WrongDeviceError(f"{operation} outside of `watched`")


@dataclass
class Counts:
    """What happened on the device; but for `launches`, by the line that asked for it.

    Attributes
    ----------
    launches
        Name of an operation that starts at least one kernel -> how often.
    waits
        Where the host waited for the device: copies to the host, sizes and numbers that only the device knows.
    copies
        Copies from the host, which none of ours pins.
    implicit
        Tensors of the host among those of the device, which CUDA copies or reads without a word.
    marks
        Launches, waits and copies so far, when each step of an optimiser of torch had been launched.
    """

    launches: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)
    implicit: Counter[str] = field(default_factory=Counter)
    marks: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def totals(self) -> tuple[int, int, int]:
        """Launches, waits and copies."""
        return self.launches.total(), self.waits.total(), self.copies.total()

    @property
    def step(self) -> tuple[int, int, int]:
        """Launches, waits and copies of the last step of the optimiser."""
        before, after = self.marks[-2:]
        return tuple(late - early for early, late in zip(before, after, strict=True))  # type: ignore[return-value]


def _where(what: str) -> str:
    """Return what was done, and the deepest line of ours that asked for it."""
    frame = sys._getframe(1)
    while frame is not None and "/mlflow_l3d/" not in frame.f_code.co_filename:
        frame = frame.f_back
    line = f"{frame.f_code.co_filename.rpartition('/mlflow_l3d/')[2]}:{frame.f_lineno}" if frame else "a test"
    return f"{line} ({what})"


@contextmanager
def watched() -> Iterator[Counts]:
    """Lend the device inside the block, and count."""
    counts = Counts()
    # Modes are those of a thread: gradients must be computed in this one.
    with torch.autograd.set_multithreading_enabled(False), _Functions(counts), _Device(counts):
        yield counts


class _Device(TorchDispatchMode):
    """Every operation below autograd."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), "CompositeImplicitAutograd"):
            with self:  # in inference mode these come whole
                found = operation.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
        tensors = [each for each in tree_iter((args, kwargs)) if isinstance(each, torch.Tensor)]
        target = kwargs.get("device")
        wanted = None if target is None else torch.device(target).type == NAME
        if not wanted and not any(isinstance(each, DeviceTensor) for each in tensors):
            return operation(*args, **kwargs)
        name = operation._schema.name.partition("::")[2]
        # Tensors of inference mode would differ from those that a training writes to.
        with torch.inference_mode(False), torch.no_grad():
            if name in ("_to_copy", "copy_"):
                return self._copy(name, args, kwargs, wanted)
            if name == "_foreach_copy_":
                for pair in zip(*args[:2], strict=True):
                    self._copy("copy_", pair, {}, None)
                return None
            return self._compute(operation, name, args, kwargs, tensors, to_host=wanted is False)

    def _copy(self, name, args, kwargs, wanted):
        """Copy within the device, to it or from it."""
        source = args[0] if name == "_to_copy" else args[1]
        there = isinstance(source, DeviceTensor)
        goal = isinstance(args[0], DeviceTensor) if wanted is None else wanted
        if there and goal:
            self.counts.launches[name] += 1
        elif goal:
            self.counts.copies[_where("copy to the device")] += 1
        else:
            self.counts.waits[_where("copy to the host")] += 1
        if name == "copy_":
            _host(args[0]).copy_(_host(source))
            return args[0]
        settings = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking", "pin_memory")}
        copied = aten._to_copy.default(_host(source), **settings)
        return DeviceTensor(copied) if goal else copied

    def _compute(self, operation, name, args, kwargs, tensors, *, to_host):
        """Compute on the CPU what the device would."""
        for each in tensors:
            if not isinstance(each, DeviceTensor):
                self._stranger(operation, name, each, args)
        own = {id(each.host): each for each in tensors if isinstance(each, DeviceTensor)}
        args, kwargs = tree_map(_host, (args, kwargs))
        kwargs.pop("pin_memory", None)
        if kwargs.pop("generator", None) is not None:
            raise WrongDeviceError(f"{operation}: expected a generator of {NAME}, found one of the cpu")
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        if _counts_true(name, args) if name in INDEXED else UNKNOWN & set(operation.tags):
            self.counts.waits[_where(name)] += 1
        shapes = {number: each.shape for number, each in own.items()}
        with _drawing(DRAWS in operation.tags):
            found = operation(*args, **kwargs)
        for number, each in own.items():
            assert each.host.shape == shapes[number], f"{operation} changed the shape of a tensor in place"
        if not operation.is_view and name not in MEMORY:
            self.counts.launches[name] += 1
        if name.startswith("_fused_adam"):
            self.counts.marks.append(self.counts.totals)
        if name == "_local_scalar_dense" or to_host:
            return found
        return tree_map_only(torch.Tensor, lambda each: own[id(each)] if id(each) in own else DeviceTensor(each), found)

    def _stranger(self, operation, name, tensor, args):
        """Count a tensor of the host that CUDA takes, and refuse others."""
        if name in INDEXED and tensor is not args[0] and tensor.dtype in (torch.int64, torch.int32, torch.bool):
            self.counts.implicit[_where(f"{name} by a tensor of the host")] += 1
        elif tensor.dim() == 0 and tensor is not args[0] and torch.Tag.pointwise in operation.tags:
            self.counts.implicit[_where(f"{name} with a number in a tensor of the host")] += 1
        else:
            both = f"Expected all tensors to be on the same device, but found at least two devices, {NAME} and cpu"
            raise WrongDeviceError(f"{both}: {_where(f'{operation} with {tuple(tensor.shape)}')}")


def _host(each):
    return each.host if isinstance(each, DeviceTensor) else each


def _counts_true(name, args) -> bool:
    """Return whether the number of true values decides a size; with one number to put, CUDA has no need of it."""
    masks = any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
    return masks and (name == "index" or args[2].numel() > 1)


@contextmanager
def _drawing(random: bool) -> Iterator[None]:
    """Let a random operation draw from the device's generator."""
    if not random:
        yield
        return
    kept = torch.get_rng_state()
    torch.set_rng_state(MODULE.get_rng_state())
    try:
        yield
    finally:
        MODULE.set_rng_state(torch.get_rng_state())
        torch.set_rng_state(kept)


class _Functions(TorchFunctionMode):
    """What torch does without asking any operation, or in another way on a GPU."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        first = args[0] if args else None
        if function is torch.Tensor.tolist and isinstance(first, DeviceTensor):
            self.counts.waits[_where("tolist")] += 1
            return first.host.tolist()
        if function in (torch.tensor, torch.as_tensor) and torch.device(kwargs.get("device") or "cpu").type == NAME:
            where = kwargs.pop("device")
            return function(*args, **kwargs).to(where)
        attention = torch.nn.functional.scaled_dot_product_attention
        if function is attention and isinstance(first, DeviceTensor):
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            given = dict(zip(names, args, strict=False)) | kwargs
            tensors = [given.pop(name, None) for name in names[:4]]
            return _Attention.apply(self.counts, given, *tensors)
        return function(*args, **kwargs)


class _Attention(torch.autograd.Function):
    """Attention as CUDA's fused kernels: one launch forwards, one backwards."""

    @staticmethod
    def forward(context, counts, settings, *tensors):
        if any(each is not None and not isinstance(each, DeviceTensor) for each in tensors):
            raise WrongDeviceError(_where("attention over tensors of two devices"))
        counts.launches["attention"] += 1
        attention, needed = torch.nn.functional.scaled_dot_product_attention, any(context.needs_input_grad[2:5])
        random = bool(settings.get("dropout_p"))
        with torch.inference_mode(False), torch.set_grad_enabled(needed), _drawing(random):
            hosts = [None if each is None else each.host.detach().requires_grad_(needed) for each in tensors[:3]]
            found = attention(*hosts, None if tensors[3] is None else tensors[3].host, **settings)
        context.counts, context.hosts, context.found = counts, hosts, found
        return DeviceTensor(found.detach())

    @staticmethod
    def backward(context, gradient):
        context.counts.launches["attention backward"] += 1
        with torch.enable_grad():
            found = torch.autograd.grad(context.found, context.hosts, gradient.host)
        return None, None, *map(DeviceTensor, found), None
