"""Prints how many tests passed and how many did not, of a report of pytest, vitest or Go.

A skipped test counts as failed: what is not run holds nothing.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def of_pytest(report: str) -> tuple[int, int]:
    suites = ElementTree.fromstring(report).iter("testsuite")
    counts = [{name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
              for suite in suites]  # fmt: skip
    bad = sum(count["failures"] + count["errors"] + count["skipped"] for count in counts)
    return sum(count["tests"] for count in counts) - bad, bad


def of_vitest(report: str) -> tuple[int, int]:
    counts = json.loads(report)
    good = int(counts["numPassedTests"])
    # A file that does not even load has no tests.
    return good, int(counts["numTotalTests"]) - good + int(counts["numFailedTestSuites"])


def of_go(report: str) -> tuple[int, int]:
    lines = [json.loads(line) for line in report.splitlines() if line.startswith("{")]
    ended = [line["Action"] for line in lines if "Test" in line]
    bad = sum(ended.count(action) for action in ("fail", "skip"))
    # A package that does not compile has no tests.
    broken = [line for line in lines if line["Action"] == "fail" and "Test" not in line]
    return ended.count("pass"), bad or len(broken)


KINDS = {"pytest": of_pytest, "vitest": of_vitest, "go": of_go}

if __name__ == "__main__":
    kind, path = sys.argv[1:]
    file = Path(path)
    # No report is one failure: the run died.
    good, bad = KINDS[kind](file.read_text()) if file.exists() else (0, 1)
    print(good, bad if good or bad else 1)
