"""Make the documentation's pictures of pages, and the gallery's reports, from real studies.

    python benchmarks/pictures.py                    # everything; about 15 minutes on two cores
    python benchmarks/pictures.py search five        # these studies, and the studies that they need

Each study writes its report to docs/gallery, its picture to docs/images, and its command, answer, sentence for a paper
and link to its block in docs/gallery/index.md. Needs Chromium (or Chrome) and the extra `demo`. The studies stay in a
store below `--folder`: a second call computes no cell again, but makes all pages again.
"""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
GALLERY = DOCS / "gallery"
MOST_BYTES, MOST_BYTES_TOGETHER = 1_000_000, 4_000_000
ROWS = 2_000
"""Of reviews.csv, which is written from the packaged film reviews."""
SMALL = "--golden-runs 20 --mitigation-runs 6 --investigation-runs 4"
"""Of the studies that others use."""


@dataclass(frozen=True)
class Study:
    """One study of the gallery.

    Attributes
    ----------
    command
        As it is typed after `mlflow-l3d`. The names in `RUNS` stand for runs of other studies.
    title
        What the gallery calls the report; empty if the gallery has none, because only other studies use the study.
    question
        The question of the report whose answer the gallery quotes below the headline.
    picture
        Name of the picture of the first screen in docs/images; empty if no page shows one.
    """

    command: str
    title: str = ""
    question: str = ""
    picture: str = ""


STUDIES = {
    "csv": Study("investigate reviews.csv", "one factor on a CSV file", "Which kind of luck?"),
    "five": Study("investigate --factor all", "five factors", "Which kind of luck?", "report"),
    "script": Study("seeds -- python train.py --seed {seed}", "ten seeds of a script", "Was a seed lucky?"),
    "seeds": Study(
        "seeds rotten_tomatoes --hyperparameters default --num-labelled 100",
        "ten seeds of a head",
        "Are single predictions stable?",
        "page-seeds",
    ),
    "prompts": Study(
        "investigate --approach icl --factor data_order,sample_choice "
        "--mitigation-runs 12 --num-labelled 100 --test-size 50 --hyperparameters calibration=contextual,chat=none",
        "two factors of a prompt",
        "Which kind of luck?",
    ),
    "head": Study(f"investigate --num-labelled 200 {SMALL}"),
    "prototypes": Study(f"investigate --approach meta_learning --num-labelled 200 {SMALL}"),
    "compare": Study("compare --runs HEAD,PROTOTYPES", "two methods compared", "Could it be luck?", "page-compare"),
    "gate": Study(
        "gate --baseline HEAD --candidate num_labelled=100 --smallest-effect 1",
        "a gate",
        "Could it be luck?",
        "page-gate",
    ),
    "sweep": Study(
        "sweep --num-labelled 50,100,200,400,800 --factor data_order,model_initialisation --golden-runs 40 "
        "--mitigation-runs 6 --investigation-runs 4",
        "a sweep over five sizes",
        "Is that a trend?",
        "page-sweep",
    ),
    "groups": Study("evaluate experiment:digits", "groups of existing runs", "Which groups differ?", "page-groups"),
    "search": Study("search --num-labelled 100", "a search of hyperparameters", "And with new seeds?", "page-search"),
}
"""Name of a study -> what is done. A study comes after the studies that it needs."""
RUNS = {"HEAD": "head", "PROTOTYPES": "prototypes"}
"""Word in a command -> the study whose run it stands for."""


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="STUDY", help=f"of {', '.join(STUDIES)}; all if none is named")
    parser.add_argument("--folder", type=Path, default=Path("pictures"), help="where studies are kept")
    options = parser.parse_args()
    if unknown := set(options.names) - set(STUDIES):
        parser.error(f"no such study: {', '.join(sorted(unknown))}")
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_inputs(folder)
    made: dict[str, str] = {}
    for name in with_needed(options.names or list(STUDIES)):
        study = STUDIES[name]
        run_id, answer = run(study, made, folder)
        made[name] = run_id
        print(name, run_id, answer, sep="\t", flush=True)
        if study.title:
            report = GALLERY / f"{name}.html"
            report.write_text(page(run_id, folder), encoding="utf-8")
            write_block(name, block(name, answer, cited(run_id, folder)))
            if study.picture:
                draw(report, DOCS / "images" / f"{study.picture}.png")
    check_reports(folder)


def with_needed(wanted: list[str]) -> list[str]:
    """Return the studies in the order in which they are made, with those that they need."""
    needed = {run for name in wanted for word, run in RUNS.items() if word in re.findall(r"\w+", STUDIES[name].command)}
    return [name for name in STUDIES if name in {*wanted, *needed}]


def write_inputs(folder: Path) -> None:
    """Write what commands of the gallery name: reviews.csv, train.py, and the experiment of a tutorial."""
    import pandas as pd

    from mlflow_l3d.tasks.sources.packaged import rotten_tomatoes

    shutil.copy(GALLERY / "train.py", folder)
    if not (script := folder / "digits.py").exists():
        text = (DOCS / "tutorials" / "experiment.md").read_text(encoding="utf-8")
        script.write_text(text.split("```python\n", 1)[1].split("```", 1)[0], encoding="utf-8")
        subprocess.run([sys.executable, script], env=environment(folder), cwd=folder, check=True)
    if not (folder / "reviews.csv").exists():
        task = rotten_tomatoes({})
        labels = [task.class_names[label] for label in task.labels]
        reviews = pd.DataFrame({"text": task.texts[0], "label": labels}).sample(ROWS, random_state=0)
        reviews.to_csv(folder / "reviews.csv", index=False)


def run(study: Study, made: dict[str, str], folder: Path) -> tuple[str, str]:
    """Run the command of a study; return its run, and its answer for the gallery."""
    command = study.command
    for word, other in RUNS.items():
        command = re.sub(rf"\b{word}\b", made.get(other, word), command)
    done = call(shlex.split(command), folder)
    ids = re.findall(r"runs/([0-9a-f]{32})", done.stderr) or re.findall(r"\b[0-9a-f]{32}\b", done.stdout)
    if not ids:  # a gate's exit status is its decision
        sys.exit(f"mlflow-l3d {command}: {done.stderr[-2000:]}")
    (folder / f"{ids[0]}.txt").write_text(done.stdout, encoding="utf-8")
    return ids[0], answer_of(done.stdout, study.question)


def answer_of(output: str, question: str) -> str:
    """Return the headline of an output in bold, and a question with its answer; without it if it is not asked."""
    headline, _, rest = output.partition("\n===")
    answers = re.findall(r"^[A-Z][^?\n]*\? .*(?:\n {4}.*)*", rest.split("\n\n", 1)[0], re.MULTILINE)
    chosen = [each for each in answers if question and each.startswith(question)]
    return " ".join(" ".join([f"**{headline.strip()}**", *chosen[:1]]).split())


def call(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Call mlflow-l3d with the store of the folder."""
    command = [sys.executable, "-m", "mlflow_l3d", *arguments]
    return subprocess.run(command, env=environment(folder), cwd=folder, capture_output=True, text=True, check=False)


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a process that uses the store of the folder."""
    return {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}


def page(run_id: str, folder: Path) -> str:
    """Return the report of a run."""
    done = call(["view", run_id, "--bundle", "pages"], folder)
    if done.returncode:
        sys.exit(f"mlflow-l3d view {run_id} --bundle pages: {done.stderr[-2000:]}")
    return (folder / "pages" / f"{run_id}.html").read_text(encoding="utf-8")


def cited(run_id: str, folder: Path) -> str:
    """Return the sentence for a paper; empty for a study that has none."""
    done = call(["view", run_id, "--cite"], folder)
    return "" if done.returncode else done.stdout.split("\n\n", 1)[0].replace("\n", " ").strip()


def block(name: str, answer: str, sentence: str) -> str:
    """Return the lines of the gallery's page that come from the study."""
    lines = ["```bash", f"mlflow-l3d {STUDIES[name].command}", "```", "", answer]
    lines += ["", f"For a paper: “{sentence}”"] if sentence else []
    return "\n".join([*lines, "", f"[Report: {STUDIES[name].title}]({name}.html)"])


def write_block(name: str, text: str) -> None:
    """Replace the block of a study in docs/gallery/index.md."""
    index = GALLERY / "index.md"
    before = index.read_text(encoding="utf-8")
    start, end = f"<!-- made: {name} -->\n", "<!-- end -->"
    if start not in before:
        sys.exit(f"{index} has no line {start.strip()}. Add it, and a line {end.strip()} below it.")
    head, rest = before.split(start, 1)
    index.write_text(f"{head}{start}\n{text}\n\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


def draw(source: Path, picture: Path) -> None:
    """Let a headless browser draw the top of a page."""
    browser = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    if browser is None:
        sys.exit("Chromium is needed.")
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=2000"]
    size = ["--window-size=1280,800", f"--screenshot={picture}"]
    subprocess.run([browser, *options, *size, source.as_uri()], check=True, capture_output=True)


def check_reports(folder: Path) -> None:
    """Stop if reports are too large for the site, or name this machine."""
    reports = {report.name: report.read_text(encoding="utf-8") for report in sorted(GALLERY.glob("*.html"))}
    private = [str(folder), str(DOCS.parent), str(Path.home()), f"{getpass.getuser()}@", "127.0.0.1", "sqlite:"]
    if len(host := socket.gethostname()) > 3:
        private.append(host)
    if named := {name: word for name, text in reports.items() for word in private if word in text}:
        sys.exit(f"Private words in docs/gallery: {named}")
    sizes = {name: len(text.encode()) for name, text in reports.items()}
    if max(sizes.values(), default=0) > MOST_BYTES or sum(sizes.values()) > MOST_BYTES_TOGETHER:
        sys.exit(f"Reports in docs/gallery are too large: {sizes}")


if __name__ == "__main__":
    main()
