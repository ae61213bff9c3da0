"""The action and its script: one comment, the status of the check, and no token anywhere; GitHub is a fake."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github import ACTION, LIST, SCRIPT, TOKEN, GitHub, Job, fake_github

RUN = "0123456789abcdef0123456789abcdef"
VIEW = 'echo "### It is $VERDICT." > "$4"; echo "<svg/>" > "$6"; echo "$2" > seen; echo "$VERDICT: $4, $6"'
"""What stands in for `mlflow-l3d view RUN --comment FILE --badge FILE --bundle FOLDER`."""
STUDY = f"echo 'This run: http://127.0.0.1:5000/#/experiments/0/runs/{RUN}' >&2"
MARKER = "<!-- mlflow-l3d: mlflow-l3d -->\n"


@pytest.fixture
def github() -> Iterator[GitHub]:
    with fake_github() as fake:
        yield fake


@pytest.fixture
def job(github: GitHub, tmp_path: Path) -> Job:
    variables = {"GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": "owner/name", "VERDICT": "worse"}
    made = Job(tmp_path, variables)
    made.program("mlflow-l3d", VIEW)
    return made


def test_every_input_and_output_of_the_action_is_used() -> None:
    steps, text = ACTION["runs"]["steps"], str(ACTION["runs"])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    assert len({step["id"] for step in steps}) == len(steps)
    for step in steps:
        assert "${{" not in step.get("run", ""), "an expression in a script is code of whoever wrote its value"
        assert all(f"${name}" in step["run"] or name == "L3D_TOKEN" for name in step.get("env", ()))
        assert step.get("shell") == ("bash" if "run" in step else None)
    assert [step["id"] for step in steps if "inputs.token" in str(step)] == ["comment"]
    used = set(re.findall(r"steps\.([\w.-]+)", text + str(ACTION["outputs"])))
    assert used == {"measure.outputs.status", "measure.outputs.verdict", "upload.outputs.artifact-url"}


@pytest.mark.slow
def test_one_comment_is_created_then_updated(job: Job, github: GitHub) -> None:
    for at in range(100):
        github.add(f"talk {at}", "User")
    stranger = github.add(f"{MARKER}It is better.", "User", "CONTRIBUTOR")
    code, _, outputs = job.act(command=f"{STUDY}; exit 1")
    assert code == 1
    assert outputs == {"status": "1", "verdict": "worse", "report": "https://github.example/report"}
    assert (job.folder / "seen").read_text() == f"{RUN}\n"
    assert (job.folder / "l3d-report" / "badge.svg").exists()
    body = github.comments[-1]["body"]
    assert body == f"{MARKER}### It is worse.\n\nExit status 1.\n\n[The report](https://github.example/report)\n"
    again = Job(job.folder, {**job.variables, "VERDICT": "better"})
    assert again.act(command=STUDY)[0] == 0
    assert again.act(command=STUDY, name="another")[0] == 0
    assert [each["body"].splitlines()[1] for each in github.comments[101:]] == ["### It is better."] * 2
    assert github.comments[101]["body"].startswith(MARKER)
    assert github.comments[stranger - 1000]["body"] == f"{MARKER}It is better."
    assert github.asked.count(f"POST {LIST}") == 2
    assert job.summary == ""


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        ("POST", "GitHub took no comment (HTTP 403): a fork may not write one"),
        ("GET POST", "GitHub does not show the comments (HTTP 403)"),
    ],
)
def test_without_the_right_to_comment_the_summary_has_it(job: Job, github: GitHub, refused: str, line: str) -> None:
    github.refused = refused
    code, printed, _ = job.act(command=f"{STUDY}; exit 1")
    assert code == 1
    assert github.comments == []
    assert f"{line}: the comment is in the summary of the job.\n" in printed
    assert job.summary.startswith(f"{line}, so the result is here.\n\n{MARKER}### It is worse.")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"pull_request": ""}, "This run has no pull request"),
        ({"token": ""}, "L3D_TOKEN or GITHUB_REPOSITORY is not set"),
    ],
)
def test_without_a_place_for_a_comment_nothing_is_asked(job, github, options, line) -> None:
    assert job.act(command=STUDY, **options)[0] == 0
    assert line in job.summary
    assert github.asked == []


@pytest.mark.parametrize(
    ("status", "verdict", "undecided", "expected"),
    [
        (0, "better", "fail", 0),
        (0, "equivalent", "fail", 0),
        (1, "worse", "pass", 1),
        (2, "undecided", "fail", 2),
        (2, "undecided", "pass", 0),
        (2, "no verdict", "pass", 2),  # a wrong option of another study
        (3, "undecided", "pass", 3),
        (130, "undecided", "pass", 130),
    ],
)
def test_the_check_has_the_status_of_the_command(job, status, verdict, undecided, expected) -> None:
    words = ["run", "--undecided", undecided, "--", "bash", "-c", f"{STUDY}; exit {status}"]
    assert job.script(*words, VERDICT=verdict).returncode == expected
    shown = f"It is {verdict}." if status < 3 else "The command wrote no result"  # what it measured is not an answer
    assert f"### {shown}\n" in job.summary


@pytest.mark.parametrize(
    ("command", "expected", "body"),
    [
        ("""echo so; echo '{"decision": "undecided", "runs": 4}'; exit 2""", 0, '"runs": 4'),
        ("""echo '{"decision": "reject"}'; exit 1""", 1, "### reject"),
        ("""echo '{"password": "hunter2"}'; exit 2""", 2, "### The command wrote no result"),
        ("echo hunter2; echo '= 3 passed, 10 skipped, 1 warning in 0.4s ='", 0, "### 3 passed, 10 skipped, 1 warning"),
        ("exit 2", 2, "### The command wrote no result"),  # pytest was interrupted
        ("echo '### 3 of 4 hold' > tests.md; exit 1", 1, "### 3 of 4 hold"),
        (f"{STUDY}; echo '### tests' > tests.md; exit 2", 2, "### tests"),
        (f"{STUDY}; echo '!!!! KeyboardInterrupt !!!!'; seq 4; exit 2", 2, "### It is undecided."),
        ("""echo '{"verdict": "keep", "earlier": {"verdict": "undecided"}}'; exit 2""", 2, "### keep"),
        (
            f"""{STUDY}; echo '{{"verdict": "keep", "referee": "{RUN}"}}'""",
            0,
            "### keep\n\n### It is undecided.\n\n```json\n{",
        ),
        ("""echo '["undecided"]'; exit 2""", 2, "### The command wrote no result"),
        (r"printf '\xff' > tests.md; exit 2", 2, "\ufffd\nExit status 2."),
    ],
)
def test_what_is_no_study_has_a_comment_too(job: Job, command: str, expected: int, body: str) -> None:
    words = ["run", "--markdown", "tests.md", "--undecided", "pass", "--", "bash", "-c", command]
    done = job.script(*words, VERDICT="undecided")
    assert done.returncode == expected
    assert body in job.summary
    assert "hunter2" not in job.summary


def test_results_of_an_earlier_run_are_not_shown_again(job: Job) -> None:
    assert job.script("run", "--markdown", "tests.md", "--", "bash", "-c", "echo '### old' > tests.md").returncode == 0
    assert job.script("measure", "--markdown", "tests.md", "--", "false").returncode == 0
    folder = job.folder / "l3d-report"
    assert "### The command wrote no result" in (folder / "comment.md").read_text()
    assert (folder / "status").read_text() == "1\n"
    job.program("mlflow-l3d", "echo 'mlflow-l3d: error: no result' >&2; exit 2")
    assert job.script("measure", "--", "bash", "-c", STUDY).returncode == 0
    assert "### The command wrote no result" in (folder / "comment.md").read_text()


def test_nobody_sees_the_token(job: Job, github: GitHub) -> None:
    job.program("curl", f'printf "%s\\n" "$@" >> arguments; exec {shutil.which("curl")} "$@"')
    words = ["run", "--", "bash", "-c", f"env; {STUDY}"]
    ref = "refs/pull/7/merge"
    done = job.start(["bash", "-x", str(SCRIPT), *words], L3D_TOKEN=TOKEN, GITHUB_REF=ref)
    assert done.returncode == 0, done.stderr
    assert len(github.comments) == 1
    held = [path.read_text(encoding="utf-8") for path in job.folder.rglob("*") if path.is_file()]
    assert "Accept:" in (job.folder / "arguments").read_text()
    assert not [text for text in (done.stdout, done.stderr, *held, str(github.comments)) if TOKEN in text]


def test_a_long_comment_is_cut(job: Job, github: GitHub) -> None:
    command = 'for i in {1..9000}; do echo "- line $i"; done > tests.md'
    assert job.act(command=command, markdown="tests.md")[0] == 0
    (comment,) = github.comments
    assert 59_000 < len(comment["body"]) < 65_536
    end = "\n\nThe rest is in the report.\n\nExit status 0.\n\n[The report](https://github.example/report)\n"
    assert comment["body"].endswith(end)


def test_any_command_runs_and_comments_of_nobody_are_passed_over(job: Job, github: GitHub) -> None:
    github.add(f"{MARKER}old")
    github.comments[0] |= {"user": None}
    words = ["run", "--", "python", "-c", "print('A' * 3)"]  # a program, whatever functions the script has
    done = job.script(*words, L3D_TOKEN=TOKEN, GITHUB_REF="refs/pull/7/merge")
    assert (done.returncode, done.stdout) == (0, "AAA\n")
    assert [each["body"].endswith("Exit status 0.\n") for each in github.comments] == [False, True]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["measure"], "measure: needs a command behind --"),
        (["look"], "step=look: must be run, measure, comment or status"),
        (["run", "--undecided", "maybe", "--", "true"], "undecided=maybe: must be fail or pass"),
        (["comment", "--name", "a-->b"], "name=a-->b: must be letters, digits, blanks, . _ and -"),
        (["comment", "--pull-request", "7/../8"], "pull-request=7/../8: must be a number"),
        (["status"], "folder=l3d-report: holds no status; the step measure writes it"),
        (["run", "--speed", "1"], "option=--speed: is unknown; the head of this script has all of them"),
    ],
)
def test_mistakes_are_one_line(job: Job, words: list[str], line: str) -> None:
    done = job.script(*words)
    assert (done.returncode, done.stderr) == (3, f"pull_request.sh: {line}\n")
