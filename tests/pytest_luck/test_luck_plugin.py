"""`pytest --l3d` in sessions of its own: verdicts, reports, and tests that are not as they should be."""

import json
from typing import Any

import pytest
import scipy.optimize
import scipy.special  # noqa: F401 - sessions within this one would import and forget it

import mlflow_l3d.pytest_luck.suite  # noqa: F401

pytest_plugins = ["pytester"]
FLAGS = ["-W", "error", "-p", "mlflow_l3d.pytest_luck"]
BEGIN = "import random, pytest\nluck = pytest.mark.luck\ndef draw(luck): return random.Random(luck.seed)\n"


class Sessions:
    """Sessions of pytest in a folder, one after another, with one file of tests."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester

    def write(self, tests: str) -> None:
        self.pytester.makepyfile(test_it=BEGIN + tests)

    def run(self, *flags: str, subprocess: bool = False) -> pytest.RunResult:
        start = self.pytester.runpytest_subprocess if subprocess else self.pytester.runpytest_inprocess
        self.result = start(*FLAGS, *flags)
        return self.result

    def says(self, *lines: str) -> None:
        """Check that the output of the last session has these lines, in this order."""
        self.result.stdout.fnmatch_lines([*lines])

    def cases(self, *flags: str, subprocess: bool = False) -> dict[str, dict[str, Any]]:
        """Return what the JSON file of a session with ``--l3d`` says of each case."""
        self.run("--l3d", "--l3d-json", "out/l3d.json", *flags, subprocess=subprocess)
        self.summary = json.loads((self.pytester.path / "out/l3d.json").read_text())
        return {case["case"].removeprefix("test_it.py::test_"): case for case in self.summary["cases"]}

    def verdicts(self, *flags: str) -> dict[str, str]:
        """Return the verdict of each case."""
        return {name: case["verdict"] for name, case in self.cases(*flags).items()}

    def verdict_of(self, body: str, *flags: str) -> dict[str, Any]:
        """Return the case of a session with one test of this body."""
        self.write(f"@luck\ndef test_one(luck):\n {body}\n")
        return self.cases(*flags)["one"]


@pytest.fixture
def sessions(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Give sessions that load this plugin alone, whether it is installed or not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return Sessions(pytester)


def test_scores_losses_and_outcomes_pass_fail_or_stay_undecided(sessions: Sessions) -> None:
    sessions.write("""
@luck
def test_score(luck): luck.score(draw(luck).gauss(0.9, 0.02)).at_least(0.8)
@luck
def test_loss(luck): luck.score(draw(luck).gauss(0.9, 0.02)).at_most(0.8)
@luck(runs=30)
def test_never(luck): assert draw(luck).random() > 2, "seen"
@luck(runs=10)
def test_even(luck): assert draw(luck).random() < 0.8
@luck
def test_same(luck): luck.score(3).at_most(4)
def test_other(pytestconfig): assert not hasattr(pytestconfig.option, "randomly_seed")
""")
    cases = sessions.cases("-rs")
    verdicts = {name: case["verdict"] for name, case in cases.items()}
    assert verdicts == {"score": "passed", "loss": "failed", "never": "failed", "even": "undecided", "same": "passed"}
    sessions.result.assert_outcomes(passed=3, failed=2, skipped=1)
    for name, truth in (("loss", 0.9), ("never", 0), ("even", 0.8)):
        assert cases[name]["low"] <= truth <= cases[name]["high"]
    assert (cases["loss"]["requirement"], cases["even"]["requirement"]) == ("at most 0.8", "rate at least 0.8")
    assert (cases["even"]["runs"], cases["never"]["fails_needed"]) == (10, 5 / 0.05)
    sessions.says("*; evidence that it fails *, 100 needed; evidence that it passes *, 20 needed")
    assert cases["same"]["notes"] == ["a seed without effect: all scores are equal"]
    assert sessions.summary["verdicts"] == {"passed": 2, "failed": 2, "undecided": 1}
    assert sessions.summary["runs"] == sum(case["runs"] for case in cases.values())
    assert sessions.result.ret == 1
    passed = "passed    test_it.py::test_same: 3, required*"
    sessions.says("The last failed run, with seed *", "*AssertionError: seen", passed)


def test_without_the_flag_a_test_runs_once_with_the_first_seed(sessions: Sessions) -> None:
    sessions.write("""
seeds = []
@luck
def test_one(luck): seeds.append(luck.seed); luck.score(1).at_least(0)
@luck
def test_two(luck): luck.score(1).at_most(0.5)
@luck
def test_compared(luck): luck.score(1).not_worse_than("main", by=0.1)
def test_three(): assert len(seeds) == 1
""")
    sessions.run("-rs").assert_outcomes(passed=2, failed=1, skipped=1)
    sessions.says("SKIPPED * not worse than main by 0.1: only pytest --l3d compares seeds")
    sessions.says("E *score 1 with seed *required: at most 0.5 (one run; pytest --l3d runs several seeds)")
    markers = sessions.run("--strict-markers", "--markers").stdout.str()
    assert markers.count("@pytest.mark.luck(runs=100, rate=0.8)") == 1


def test_the_fixture_without_the_marker_or_a_requirement_is_an_error(sessions: Sessions) -> None:
    sessions.write("""
def test_one(luck): luck.score(0.0).not_worse_than("main", by=.01)
def test_two(luck): luck.score(0.0)
def test_seed(luck): assert luck.seed
""")
    sessions.run("--l3d").assert_outcomes(errors=3)
    sessions.says("The fixture luck needs the marker with --l3d: write @pytest.mark.luck above this *")
    sessions.run().assert_outcomes(errors=1, passed=2, skipped=1)
    sessions.says("luck.score requires nothing: add *")


def test_each_run_has_a_seed_and_fixtures_of_its_own(sessions: Sessions) -> None:
    """Also with pytest-randomly, and with plugins that read the fixtures."""
    sessions.pytester.makeconftest("""
import random
def pytest_addoption(parser): parser.addoption("--randomly-seed", default=7)
def pytest_runtest_call(item): random.seed(item.config.getoption("randomly_seed"))
def pytest_runtest_makereport(item): item.funcargs.get("benchmark")
""")
    sessions.write("""
made, seeds, wide, ended, drawn = [], [], [], [], set()
@pytest.fixture
def model(luck): made.append(luck.seed); yield made[-1]; ended.append(luck.seed)
@pytest.fixture(scope="module")
def shared(): wide.append(1); yield; ended.append("shared")
class TestIt:
    count = 0
    @luck(runs=4)
    def test_one(self, shared, model, luck, tmp_path):
        assert not list(tmp_path.iterdir()); (tmp_path / "file").touch()
        self.count += 1
        assert self.count == 1 and model == luck.seed
        seeds.append(luck.seed)
        drawn.add(random.random())
def test_after(shared, pytestconfig):
    assert len({*seeds}) == len(drawn) == 4 and made == seeds == ended and wide == [1]
    assert pytestconfig.getoption("randomly_seed") == 7
    print("seeds", seeds)
""")
    first, second = (sessions.run("--l3d", "-rA", "--cache-clear") for _ in range(2))
    first.assert_outcomes(passed=1, skipped=1)
    lines = [[line for line in run.outlines if line.startswith("seeds [")] for run in (first, second)]
    assert lines[0] == lines[1] != []


def test_what_is_remembered_saves_runs_and_a_drop_is_found(sessions: Sessions) -> None:
    test = "@luck\ndef test_score(luck): luck.score(draw(luck).gauss({}, 0.02)).at_least(0.8)\n"
    test += "@luck\ndef test_rate(luck): assert draw(luck).random() < {}\n"
    sessions.write(test.format(0.9, 2))
    first = sessions.cases()
    second = sessions.cases()
    assert first["rate"]["runs"] == 20
    assert {case["verdict"] for case in (*first.values(), *second.values())} == {"passed"}
    assert second["score"]["runs"] == 1
    assert second["rate"]["runs"] <= 2
    assert second["rate"]["remembered"] == 20
    sessions.write(test.format(0.7, 0.01) + "\n")
    third = sessions.cases()
    assert {case["verdict"] for case in third.values()} == {"failed"}
    assert third["score"]["runs"] < 6
    assert all(case["remembered"] == 0 for case in sessions.cases().values())  # what failed begins again


@pytest.mark.slow
def test_scores_are_compared_with_those_of_a_label_by_seed(sessions: Sessions) -> None:
    test = "@luck(runs=25)\ndef test_one(luck): {}; "
    test += "luck.score(draw(luck).gauss({}, 1)).not_worse_than('main', by=0.1)\n"
    sessions.write(test.format("pass", 5))
    assert sessions.verdicts() == {"one": "error"}
    sessions.says("*no scores of main are remembered; first run pytest --l3d --l3d-record main*")
    recorded = sessions.cases("--l3d-record", "main")["one"]
    assert (recorded["runs"], recorded["notes"]) == (20, ["remembered as main"])
    same = [sessions.cases()["one"] for _ in range(2)]
    assert [(case["verdict"], case["estimate"], case["runs"]) for case in same] == [("passed", 0, 20), ("passed", 0, 1)]
    sessions.write(test.format("assert 0", 5) + "\n")
    assert sessions.verdicts() == {"one": "failed"}  # before the score: the label is not forgotten
    sessions.write(test.format("pass", "4.7 + luck.seed % 7 / 100") + "\n\n")
    worse = sessions.cases()["one"]
    assert worse["verdict"] == "failed"
    assert worse["estimate"] == pytest.approx(-0.27, abs=0.03)
    assert worse["requirement"] == "not worse than main by 0.1"


@pytest.mark.slow
def test_differences_that_miss_at_every_recorded_seed_fail(sessions: Sessions) -> None:
    test = "@luck\n@pytest.mark.parametrize('x', range(10))\n"
    test += "def test_one(luck, x): luck.score(luck.seed % 97 {}).not_worse_than('main', by=0.1)\n"
    sessions.write(test.format(""))
    sessions.cases("--l3d-record", "main")
    sessions.write(test.format("- 0.5"))
    cases = sessions.cases().values()
    assert {(case["verdict"], case["runs"], case["estimate"]) for case in cases} == {("failed", 20, -0.5)}
    assert all(case["fails"] < case["fails_needed"] and "allow" not in str(case["notes"]) for case in cases)
    sessions.write(test.format("- 0.5 * (luck.seed % 3 > 0)") + "\n")  # not in each run: it stays undecided
    assert {*sessions.verdicts().values()} == {"undecided"}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("test_one.n = getattr(test_one, 'n', 0) + 1; 1 / (2 - test_one.n); luck.score(1).at_least(0)", "*ZeroDivi*"),
        ("luck.score(1e200).at_most(2)", "*score=1e+200: must be a finite number, 1e+100 at most in size*"),
        ("luck.score(float('nan')).at_least(0)", "*score=nan: must be a finite number*"),
        ("luck.score(1).at_least(0); luck.score(1)", "*luck.score was called twice in one run. Write a test for each*"),
        ("luck.score(1)", "*luck.score requires nothing: add .at_least, .at_most or .not_worse_than (seed *"),
        ("luck.score(1).at_least(luck.seed)", "*one run requires at least *, another at least *"),
        ("luck.score(1).at_least(0); assert 0, 'after'", "*AssertionError: after"),
        ("luck.score(1).not_worse_than('main', by=-1)", "*needs a label, and by=0 or more*"),
        ("luck.score(1).at_most(float('inf'))", "*at_most=inf: must be a finite number*"),
    ],
)
def test_an_error_is_no_flake(sessions: Sessions, body: str, line: str) -> None:
    case = sessions.verdict_of(body)
    assert case["verdict"] == "error"
    assert case["runs"] <= 2
    assert "nan" not in str(sessions.summary)
    sessions.result.assert_outcomes(failed=1)
    sessions.says(line)
    assert sessions.cases()["one"]["remembered"] == 0


def test_exceptions_of_a_test_without_score_are_flakes_and_later_skips_hide_nothing(sessions: Sessions) -> None:
    sessions.write("""
count = {}
def nth(name): count[name] = count.get(name, 0) + 1; return count[name]
@luck
def test_flaky():
    if nth("flaky") == 5: raise TimeoutError
@luck
def test_broken(): raise KeyError("answer")
@luck
def test_skips():
    if nth("skips") % 2 == 0: pytest.skip("busy")
    assert 0
@pytest.fixture
def busy():
    if nth("busy") == 3: pytest.skip("busy")
@luck
def test_setup(busy): pass
@luck(runs=6)
def test_rest():
    if nth("rest") > 1: pytest.skip("gone")
""")
    cases = sessions.cases("--l3d-markdown", "out/l3d.md")
    told = {name: (case["verdict"], case["runs"]) for name, case in cases.items()}
    assert told.pop("flaky")[1] == 20
    assert (told.pop("broken"), told.pop("skips")) == (("failed", 4), ("failed", 4))
    assert told == {"setup": ("undecided", 19), "rest": ("undecided", 1)}
    sessions.result.assert_outcomes(failed=2, skipped=3)
    lines = (sessions.pytester.path / "out/l3d.md").read_text().splitlines()
    assert lines[0] == f"**{sessions.summary['text']}**"
    assert lines[2].startswith("- failed: test_it.py::test_")


@pytest.mark.slow
def test_a_suite_that_cannot_fail_is_not_green(sessions: Sessions) -> None:
    sessions.write("@luck(runs=3)\n@pytest.mark.parametrize('x', range(9))\ndef test_one(x): assert 0\n")
    assert {*sessions.verdicts("--l3d-budget", "0s").values()} == {"error"}
    sessions.says("*runs=3: must be 5 or more in this suite: fewer cannot show a rate below 0.8*")
    body = "luck.score(0.7).at_least(0.8)"
    assert sessions.verdict_of(f"{body}; assert 1", "-k", "one")["verdict"] == "failed"
    sessions.write(f"@luck(runs=5)\n@pytest.mark.parametrize('x', range(3))\ndef test_one(luck, x): {body}\n")
    cases = sessions.cases()
    assert {(case["verdict"], case["runs"], case["misses"]) for case in cases.values()} == {("failed", 5, True)}
    assert cases["one[0]"]["notes"][0].endswith("if half of all runs met it, with probability 0.03")
    text = " 3 failed since each run misses the requirement; by chance, another verdict is failed in at most 5 %"
    assert text in sessions.summary["text"]
    assert sessions.result.ret == 1
    sessions.write("@luck\ndef test_one(): assert 0\n@luck\ndef test_two(): pass\n\n")
    cases = sessions.cases("--l3d-budget", "0s")  # what fails in each run goes on
    told = {name: (case["verdict"], case["runs"] > 1) for name, case in cases.items()}
    assert told == {"one": ("failed", True), "two": ("undecided", False)}


def test_what_did_not_run_to_its_end_is_not_logged(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[object] = []
    monkeypatch.setattr("mlflow_l3d.pytest_luck.experiment.read_memory", lambda folder: None)
    monkeypatch.setattr("mlflow_l3d.pytest_luck.experiment.write_suite", lambda *given: logged.append(given))
    sessions.write("@luck\ndef test_a(): pass\n@luck\ndef test_b(): pytest.exit('stop')\n")
    sessions.run("--l3d", "--l3d-mlflow", "--collect-only", "--l3d-json", "none.json")
    assert not (sessions.pytester.path / "none.json").exists()
    assert [*sessions.cases("--l3d-mlflow")] == ["a"]
    assert sessions.summary["text"].startswith("interrupted; 1 passed")
    assert logged == []


def test_a_worker_that_crashed_is_in_the_summary(sessions: Sessions) -> None:
    sessions.write("@luck\ndef test_a(): pass\n")
    sessions.pytester.makeconftest("""
import pytest
def pytest_runtest_logfinish(nodeid):
    report = pytest.TestReport("test_it.py::test_b", ("", 0, ""), {}, "failed", "worker crashed", "???")
    suite.pytest_runtest_logreport(report)
def pytest_sessionstart(session):
    global suite
    suite = session.config.pluginmanager.get_plugin("l3d-suite")
""")
    cases = sessions.cases()
    assert (cases["b"]["verdict"], cases["b"]["notes"]) == ("error", ["its worker crashed"])


def test_skips_expected_failures_and_broken_fixtures_are_as_ever(sessions: Sessions) -> None:
    sessions.write("""
@pytest.fixture
def broken(): raise AssertionError("setup")
@pytest.fixture
def leaky(): yield; 1 / 0
@luck
def test_skip(luck): pytest.skip("inside")
@luck
@pytest.mark.skip
def test_marked(): pass
@luck
@pytest.mark.xfail(raises=AssertionError)
def test_xfail(): assert 0
@luck
@pytest.mark.xfail(strict=True)
def test_strict(luck): luck.score(1).at_least(0)
@luck
def test_xfail_inside(): pytest.xfail("inside")
@luck
def test_setup(broken): pass
@luck
def test_teardown(leaky): pass
""")
    assert sessions.verdicts() == {
        **{"skip": "skipped", "marked": "skipped", "xfail": "failed", "strict": "passed", "xfail_inside": "skipped"},
        **{"setup": "error", "teardown": "error"},
    }
    sessions.result.assert_outcomes(skipped=2, xfailed=2, failed=1, errors=2, passed=1)


def test_undecided_cases_may_fail_and_a_spent_budget_leaves_one_run(sessions: Sessions) -> None:
    body = "assert draw(luck).random() < 2"
    case = sessions.verdict_of(body, "--l3d-budget", "0s")
    assert (case["verdict"], case["runs"], case["outcome"]) == ("undecided", 1, "skipped")
    case = sessions.verdict_of(body, "--l3d-budget", "0s", "--l3d-undecided", "fail")
    assert (case["verdict"], case["remembered"], case["outcome"]) == ("undecided", 1, "failed")
    assert sessions.verdict_of(body, "--l3d-budget", "1h")["runs"] == 18  # twenty with the two that are remembered


def test_cases_of_a_parameter_and_renamed_ones_have_a_memory_of_their_own(sessions: Sessions) -> None:
    test = "@luck\n@pytest.mark.parametrize('x', [{}])\n"
    test += "def test_one(luck, x): luck.score(x + draw(luck).random()).at_least(0)\n"
    sessions.write(test.format("5, 6"))
    assert {*sessions.cases()} == {"one[5]", "one[6]"}
    sessions.write(test.format("6, 7"))
    remembered = {name: bool(case["remembered"]) for name, case in sessions.cases().items()}
    assert remembered == {"one[6]": True, "one[7]": False}


def test_without_the_cache_of_pytest_the_cache_of_this_package_remembers(sessions, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("L3D_CACHE", str(tmp_path / "cache"))
    body = "luck.score(draw(luck).random()).at_least(-9)"
    assert sessions.verdict_of(body, "-p", "no:cacheprovider")["remembered"] == 0
    assert sessions.cases("-p", "no:cacheprovider")["one"]["remembered"] > 0
    assert len(list((tmp_path / "cache").glob("pytest/*/seed-0/*.json"))) == 1


@pytest.mark.slow
def test_a_damaged_memory_begins_again(sessions: Sessions) -> None:
    test = "@luck\n@pytest.mark.parametrize('x', range(12))\n"
    sessions.write(test + "def test_one(luck, x): luck.score(draw(luck).random()).at_least(-9)\n")
    assert {case["remembered"] for case in sessions.cases().values()} == {0}
    paths = [*(sessions.pytester.path / ".pytest_cache/d/l3d/seed-0").glob("*.json")]
    whole = [path.read_text() for path in paths]
    kinds = ({"suites": None}, {"fresh": "x"}, {"against": 5}, {"runs": {"": {"0": 1e200}}}, {"runs": []})
    damaged = ["", "[]", "{", '{"case": 1}', "null", whole[5].replace("0.", "NaN, 0.", 1)]
    damaged += [json.dumps(json.loads(text) | kind) for text, kind in zip(whole[6:], kinds, strict=False)]
    assert len(paths) == len(damaged) + 1  # one is as it was
    for path, text in zip(paths, damaged, strict=False):
        path.write_text(text)
    cases = sessions.cases().values()
    assert {case["verdict"] for case in cases} == {"passed"}
    told = sorted((case["notes"], case["remembered"] > 0) for case in cases)
    assert told == [([], True)] + [(["its remembered runs were damaged"], False)] * len(damaged)
    assert {str(case["notes"]) for case in sessions.cases().values()} == {"[]"}
    assert {case["remembered"] for case in sessions.cases("--l3d-seed", "7").values()} == {0}


def test_stopping_repeating_failures_and_junit_see_one_test_per_case(sessions: Sessions) -> None:
    sessions.write("@luck\ndef test_a(): pass\n@luck\ndef test_b(): assert 0\n@luck\ndef test_c(): pass\n")
    assert [*sessions.verdicts("-x").values()] == ["passed", "failed"]
    assert [*sessions.cases("--lf")] == ["b"]
    sessions.run("--l3d", "--junit-xml", "out.xml")
    text = (sessions.pytester.path / "out.xml").read_text()
    assert 'tests="3"' in text
    assert 'failures="1"' in text
    assert '<property name="l3d_verdict" value="failed"' in text


@pytest.mark.slow
def test_workers_of_xdist_share_the_suite(sessions: Sessions) -> None:
    sessions.write("@luck\n@pytest.mark.parametrize('x', range(6))\ndef test_one(luck, x): assert x < 5\n")
    cases = sessions.cases("-p", "xdist", "-n", "2", subprocess=True)
    sessions.result.assert_outcomes(passed=5, failed=1)
    assert cases["one[5]"]["fails_needed"] == 6 / 0.05
    assert {*sessions.verdicts().values()} == {"passed", "failed"}
    assert sessions.summary["runs"] < 6 * 4


@pytest.mark.parametrize(
    ("mark", "line"),
    [
        ("@luck(runs=0)", "*runs=0: must be a whole number, 1 or more."),
        ("@luck(rate=1)", "*rate=1: must be above 0, and 0.99 at most."),
        ("@luck(20)", "*takes runs= and rate= only."),
    ],
)
def test_a_wrong_marker_is_an_error_of_its_test(sessions: Sessions, mark: str, line: str) -> None:
    sessions.write(f"{mark}\ndef test_one(): raise SystemExit\ndef test_two(): pass\n")
    sessions.run("--l3d").assert_outcomes(errors=1, passed=1)
    sessions.says(line)


@pytest.mark.parametrize(
    ("flag", "value", "line"),
    [
        ("--l3d-alpha", "1", "*--l3d-alpha=1.0: must be above 0 and below 1."),
        ("--l3d-checks", "0", "*--l3d-checks=0.0: must be 1 or more."),
        ("--l3d-budget", "ten", "*--l3d-budget=ten: must be a time such as 90s, 10m or 1h."),
        ("--l3d-seed", "-1", "*--l3d-seed=-1: must be 0 or more."),
    ],
)
def test_a_wrong_option_ends_the_session_before_a_run(sessions: Sessions, flag: str, value: str, line: str) -> None:
    sessions.write("@luck\ndef test_one(): raise SystemExit\n")
    result = sessions.run("--l3d", flag, value)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([line])
