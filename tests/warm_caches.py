"""What a command makes once in each process, made by importing this: for the processes of :mod:`warm_start`."""

import sys
from pathlib import Path

from mlflow_l3d.cli import parser
from mlflow_l3d.report.html import environment

sys.path.remove(str(Path(__file__).parent))  # it was there for this, and what is installed is read for a path
parser()
for name in environment().list_templates(["html"]):
    environment().get_template(name)
