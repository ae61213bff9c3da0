"""Scripts that are no part of a package, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def load_script(path: str) -> ModuleType:
    """Return the module of a script below the root of the repository."""
    spec = importlib.util.spec_from_file_location(f"{Path(path).stem}_of_the_repository", ROOT / path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
