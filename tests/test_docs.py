"""What the documentation says is true: its examples run and its names exist."""

import importlib
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
from warm_start import WarmStart

from mlflow_l3d import cli
from mlflow_l3d.analysis.importance.results import IMPORTANCE_METRICS
from mlflow_l3d.approaches.base import resolve_hyperparameters
from mlflow_l3d.approaches.command.approach import Command
from mlflow_l3d.approaches.synthetic import FACTORS
from mlflow_l3d.designs import all_designs
from mlflow_l3d.metrics import classification, regression
from mlflow_l3d.metrics.base import OF_CLASSES
from mlflow_l3d.metrics.known import registered
from mlflow_l3d.parameters.verbs import verbs
from mlflow_l3d.testing import Trouble, bench_job, design_cells
from mlflow_l3d.tracking import names

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mlflow_l3d"
PAGES = {
    str(path.relative_to(ROOT if path.parent == ROOT else ROOT / "docs")): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
"""The README and the pages, by their path below docs/."""
SHOWN = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder, pattern in ((ROOT, "*.md"), (ROOT / "docs", "**/*"), (ROOT / "projects", "**/*"), (PACKAGE, "**/*.py"))
    for path in folder.glob(pattern)
    if path.suffix in {".md", ".ipynb", ".py"} and path.name != "CHANGELOG.md"
}
"""What people read: pages, notebooks, and sources, whose hints they see."""


def block(page: str, name: str) -> str:
    """Return the fenced block after the comment that names it."""
    found = re.findall(rf"<!-- test: {name} -->\n```python\n(.*?)```", PAGES[page], re.DOTALL)
    assert len(found) == 1
    return str(found[0])


def test_commands_of_mlflow_run_need_no_conda() -> None:
    """Without an environment manager `mlflow run` looks for conda, which most people do not have."""
    project = re.compile(r"mlflow run (?:\.|projects/).*")
    commands = [(page, each) for page, text in SHOWN.items() for each in project.findall(text)]
    assert len(commands) > 10
    assert not [(page, each) for page, each in commands if not re.match(r"mlflow run \S+ --env-manager", each)]


@pytest.mark.slow
def test_example_and_query_of_the_page_on_runs(tmp_path: Path, tracking_uri: str) -> None:
    script = tmp_path / "own_cells.py"
    strict = "import warnings\n\nwarnings.filterwarnings('error', category=DeprecationWarning, module='__main__')\n"
    own_cells = (ROOT / "docs" / "own_cells.py").read_text()
    script.write_text(f"{strict}{own_cells}\nprint('-----')\n{block('runs.md', 'query')}")
    environment = {**os.environ, "MLFLOW_TRACKING_URI": tracking_uri, "COLUMNS": "200"}
    process = WarmStart([str(script)], tmp_path, environment)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    result, _, queried = stdout.partition("-----")
    assert all(name in result for name in ("importance", "golden_std", "consistency"))
    table = [line.split() for line in queried.strip().splitlines()[2:]]
    assert [len(row) for row in table] == [5] * 5

    import mlflow
    import numpy as np

    client = mlflow.MlflowClient(tracking_uri)
    (parent,) = client.search_runs(["0"], "tags.`l3d.role` = 'investigation'")
    metrics = parent.data.metrics
    assert parent.data.tags[names.STATE] == "complete"
    scores = np.array([[float(value) for value in row[1:]] for row in table])
    assert metrics["contributed_std"] == pytest.approx(scores.std(axis=1).mean(), abs=1e-3)
    assert metrics["mitigated_std"] == pytest.approx(scores.mean(axis=1).std(), abs=1e-3)
    assert metrics["contributed_std"] > 0.01
    artifacts = {entry.path for entry in client.list_artifacts(parent.info.run_id)}
    assert {names.REPORT, names.CELLS, names.PREDICTIONS, names.IMPORTANCE} <= artifacts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("how-to/write-an-approach.md", ["callable", "conformance"]),
        ("how-to/write-a-task.md", ["task", "loader"]),
        ("how-to/write-an-executor.md", ["executor", "conformance"]),
        ("how-to/write-a-design.md", ["design", "conformance"]),
    ],
)
def test_examples_of_the_pages_on_things_of_your_own(page, names, tmp_path, tracking_uri, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    monkeypatch.chdir(tmp_path)
    Path("cache").mkdir()
    module = Path(page).stem.replace("-", "_")
    text = "\n".join(block(page, name) for name in names)
    Path(f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module(module)
    if page == "how-to/write-an-executor.md":
        monkeypatch.syspath_prepend(ROOT / "docs/how-to")
        command = importlib.import_module("command_executor")
        cells = list(design_cells(FACTORS, 4))
        job = bench_job(Trouble({cells[1].key: "exit"}, once=True), tmp_path)
        outcomes = list(command.Commands(job=job).run(iter(cells)))
        assert [outcome.error for outcome in outcomes] == [None] * 4


@pytest.mark.slow
def test_own_function_of_the_readme(tracking_uri, monkeypatch, capsys) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    small = "executor='inline', investigation_runs=2, mitigation_runs=2, num_labelled=200, test_size=100"
    text = block("README.md", "own function").replace('factor="data_order")', f'factor="data_order", {small})')
    assert small in text
    exec(text, {})
    assert "mine" in capsys.readouterr().out


@pytest.mark.slow
def test_script_of_the_page_on_commands(tmp_path: Path) -> None:
    page = PAGES["tutorials/script.md"]
    (tmp_path / "train.py").write_text(block("tutorials/script.md", "command"))
    (command,) = re.findall(r" -- (python train.py .* \{output\})", page)
    approach = Command(command, here=tmp_path)
    given = resolve_hyperparameters(approach, {"classes": "0|1|2"})
    written = approach.execute({"data_split": 0, "data_order": 1, "model_initialisation": 2}, given)
    assert (len(written.ids), written.classes.names) == (60, ("0", "1", "2"))


@pytest.mark.slow
def test_page_on_runs_is_what_an_investigation_writes(tracking_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tag, metric, parameter and artifact of a real investigation stands on the page."""
    import mlflow

    from mlflow_l3d import investigate

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    sizes = {"investigation_runs": 3, "mitigation_runs": 3, "golden_runs": 6, "num_labelled": 20, "test_size": 20}
    result = investigate(approach="synthetic", executor="inline", **sizes)
    client = mlflow.MlflowClient(tracking_uri)
    parent = client.get_run(result.run_id)
    (child, *_) = client.search_runs(["0"], "tags.`l3d.phase` = 'investigation'")
    page = PAGES["runs.md"] + PAGES["how-to/write-a-metric.md"]
    written = {*parent.data.tags, *child.data.tags, *child.data.metrics}
    written |= {name.partition("/")[0] for name in parent.data.metrics}
    written = {name for name in written if not name.startswith("mlflow.") and name != "synthetic_score"}
    artifacts = {entry.path for run in (parent, child) for entry in client.list_artifacts(run.info.run_id)}
    written |= {artifact.replace("-data_order", "-<factor>") for artifact in artifacts}
    assert {name for name in written if f"`{name}`" not in page} == set()
    columns = {name for name in result.cells.columns if not name.startswith(("factor.", "seed."))}
    assert {name for name in columns - set(child.data.metrics) if f"`{name}`" not in page} == set()
    expected = {"score_mean": {1, 2, 3}, "importance": {2, 3}, "consistency": {1, 2, 3}}
    histories = {name: client.get_metric_history(result.run_id, name) for name in expected}
    assert {name: {metric.step for metric in history} for name, history in histories.items()} == expected


@pytest.mark.slow
def test_metric_of_the_page_is_computed_asked_for_and_shown(tmp_path, tracking_uri, monkeypatch, capsys) -> None:
    import mlflow

    information = tmp_path / "mine-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (declared,) = re.findall(r"```toml\n(.*?)```", PAGES["how-to/write-a-metric.md"], re.DOTALL)
    points = tomllib.loads(declared)["project"]["entry-points"]["mlflow_l3d.metrics"]
    lines = [f"{name} = {value}" for name, value in points.items()]
    (information / "entry_points.txt").write_text("\n".join(["[mlflow_l3d.metrics]", *lines]))
    (tmp_path / "my_metrics.py").write_text(block("how-to/write-a-metric.md", "metric"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_uri)
    registered.cache_clear()
    try:
        exec(block("how-to/write-a-metric.md", "use of the metric"), {})
    finally:
        monkeypatch.delitem(sys.modules, "my_metrics")
        registered.cache_clear()
    assert capsys.readouterr().out.startswith("balanced_accuracy {")
    client = mlflow.MlflowClient(tracking_uri)
    (child, *_) = client.search_runs(["0"], "tags.`l3d.phase` = 'golden'")
    assert 0 <= child.data.metrics["balanced_accuracy"] <= 1
    (parent,) = client.search_runs(["0"], "tags.`l3d.role` = 'investigation'")
    report = client.download_artifacts(parent.info.run_id, names.REPORT, str(tmp_path))
    assert "balanced_accuracy" in Path(report).read_text(encoding="utf-8")


def test_page_on_designs_names_ours() -> None:
    assert [name for name in all_designs() if f"`{name}`" not in PAGES["concepts/designs.md"]] == []


def test_page_on_metrics_names_ours() -> None:
    ours = [*classification.METRICS, *regression.METRICS]
    rows = re.findall(r"^\| `(\w+)` \| (classes|numbers) \| (.*) \|$", PAGES["how-to/write-a-metric.md"], re.MULTILINE)
    assert rows == [(each.name, "classes" if each.kinds == OF_CLASSES else "numbers", each.words) for each in ours]


def test_every_tag_of_ours_and_every_metric_stands_on_the_page() -> None:
    tags = [value for name, value in vars(names).items() if name.isupper() and str(value).startswith("l3d.")]
    assert len(tags) > 10
    assert [name for name in (*tags, *IMPORTANCE_METRICS) if f"`{name}`" not in PAGES["runs.md"]] == []
    assert set(re.findall(r"`(l3d\.[a-z_]+)`", "".join(PAGES.values()))) <= set(tags)


def test_spread_of_five_runs_is_as_uncertain_as_the_page_says() -> None:
    from scipy.stats import chi2

    low, high = (chi2.ppf([0.025, 0.975], 4) / 4) ** 0.5
    assert f"between {low:.2f} and {high:.2f} times" in " ".join(PAGES["concepts/trust.md"].split())


@pytest.mark.parametrize("page", sorted(PAGES))
def test_names_of_options_and_parameters_exist(page: str) -> None:
    text = PAGES[page]
    known = {name for verb in verbs().values() for name in verb.parameters}
    for verb, options in re.findall(r"mlflow-l3d ([\w-]+)((?: +[^-`\s]\S*)?(?: +--[a-z-]+(?: [^-`\s]\S*)?)+)", text):
        cli._parse([verb, *re.findall(r"--\S+|(?<= )[^-\s]\S*", options)])
    for name in re.findall(r"-P (\w+)=", text):
        assert name in known, name


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_and_paths_lead_somewhere(page: str) -> None:
    text = PAGES[page]
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT if page == "README.md" else (ROOT / "docs" / page).parent) / target).exists(), target
    for path in re.findall(r"`((?:mlflow_l3d/)?(?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", text):
        assert (ROOT / path).exists() or (PACKAGE / path).exists(), path


@pytest.mark.parametrize("page", sorted(PAGES))
def test_pages_hold_nothing_private(page: str) -> None:
    assert not re.search(r"/work\b|/home/|/root\b|\bassistant\b", PAGES[page])


def test_every_check_has_its_row() -> None:
    """A check that no page explains is a code without a meaning."""
    raised = {code for path in PACKAGE.rglob("*.py") for code in re.findall(r"L3D\d{3}", path.read_text("utf-8"))}
    rows = re.findall(r"^\| (L3D\d{3}) \|", PAGES["checks.md"], re.MULTILINE)
    assert sorted(raised) == rows
