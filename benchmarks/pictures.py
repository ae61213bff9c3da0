"""Make the pictures of the documentation: one real study a page, and its first screen in a headless browser.

    python benchmarks/pictures.py            # all of them; about 15 minutes on two cores
    python benchmarks/pictures.py report     # one of them

Needs Chromium (or Chrome) and the extra `demo`. The studies stay in a store of their own below `--folder`, so that a
second call computes nothing again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SMALL = ["--golden-runs", "20", "--mitigation-runs", "6", "--investigation-runs", "4"]
FEW = ["--num-labelled", "100"]
STUDIES: dict[str, tuple[list[str], int]] = {
    "report": (["investigate", "--factor", "all", "--design", "radial"], 640),
    "page-seeds": (["seeds", "rotten_tomatoes", "--hyperparameters", "default", *FEW], 640),
    "page-sweep": (
        ["sweep", "--num-labelled", "50,200,800", "--factor", "data_order,model_initialisation", *SMALL],
        640,
    ),
    "page-search": (["search", *FEW], 640),
}
"""Name of a picture -> the command of its study, and its height in pixels."""
BASE, OTHER = (["investigate", "--num-labelled", size, *SMALL] for size in ("200", "100"))
"""The two investigations that are compared, and the baseline of the gate."""


def main() -> None:
    """Make the pictures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="pictures; all if none is named")
    parser.add_argument("--folder", type=Path, default=Path("pictures"), help="where studies and pages are kept")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = options.names or [*STUDIES, "page-compare", "page-gate"]
    for name in wanted:
        if name in STUDIES:
            command, height = STUDIES[name]
            run_id = study(command, folder)
        else:
            base, other = study(BASE, folder), study(OTHER, folder)
            height = 640
            last = ["compare", "--runs", f"{base},{other}"]
            if name == "page-gate":
                last = ["gate", "--baseline", base, "--candidate", "num_labelled=100", "--smallest-effect", "1"]
            run_id = study(last, folder)
        take(page(run_id, folder), IMAGES / f"{name}.png", height)
        print(name, run_id)


def study(command: list[str], folder: Path) -> str:
    """Run a command in the store of the folder; return the run that its output names."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    done = subprocess.run(
        [sys.executable, "-m", "mlflow_l3d", *command],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    runs = re.findall(r"runs/([0-9a-f]{32})", done.stderr) or re.findall(r"\b[0-9a-f]{32}\b", done.stdout)
    if not runs:
        sys.exit(f"{' '.join(command)}: {done.stderr[-600:]}")
    return runs[0]


def page(run_id: str, folder: Path) -> Path:
    """Return the report of a study as a file."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    view = [sys.executable, "-m", "mlflow_l3d", "view", run_id, "--bundle", "pages"]
    subprocess.run(view, env=environment, cwd=folder, check=True, capture_output=True)
    return folder / "pages" / f"{run_id}.html"


def take(source: Path, picture: Path, height: int) -> None:
    """Let a headless browser draw the top of a page."""
    browser = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    if browser is None:
        sys.exit("Chromium is needed.")
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=2000"]
    size = [f"--window-size=1200,{height}", f"--screenshot={picture}"]
    subprocess.run([browser, *options, *size, source.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
