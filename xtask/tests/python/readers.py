# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a run's exports with other projects' readers: readers.py FOLDER HYPERFINE_SCRIPTS.

Says what it found as one JSON document; anything that a reader refuses ends it.
"""

import csv
import json
import pathlib
import subprocess
import sys

import junitparser
import kcidb_io
from prometheus_client.parser import text_string_to_metric_families

folder = pathlib.Path(sys.argv[1])
found = {}

junit = junitparser.JUnitXml.fromfile(str(folder / "junit"))
cases = [(suite.name, case) for suite in junit for case in suite]
found["junit"] = {
    "tests": junit.tests,
    "failures": junit.failures,
    "errors": junit.errors,
    "failed": sorted(
        f"{suite}/{case.classname}/{case.name}" for suite, case in cases if case.is_failure
    ),
}

report = json.loads((folder / "kcidb").read_text())
schema = kcidb_io.schema.V5_3
schema.validate(report)
assert schema.is_compatible_exactly(report)
found["kcidb"] = {
    test["path"]: test.get("number", {}).get("value", test["status"]) for test in report["tests"]
}
known = {build["id"] for build in report["builds"]}
assert all(test["build_id"] in known for test in report["tests"]), "a test without its build"

with open(folder / "csv", newline="") as lines:
    found["csv"] = [
        row for row in csv.DictReader(lines, strict=True) if "/" not in row["metric"]
    ]

families = text_string_to_metric_families((folder / "prometheus").read_text())
found["prometheus"] = {
    "/".join([family.name, *sample.labels.values()]): sample.value
    for family in families
    for sample in family.samples
}

script = pathlib.Path(sys.argv[2]) / "advanced_statistics.py"
told = subprocess.run(
    [sys.executable, script, folder / "hyperfine"], check=True, capture_output=True, text=True
).stdout
found["hyperfine"] = {}
for line in told.splitlines():
    if line.startswith("Command '"):
        command = found["hyperfine"].setdefault(line[len("Command '") : -1], {})
    elif line.startswith("  ") and not line.startswith("   ") and not line.endswith(":"):
        name, value = line.split(":")
        command[name.strip()] = value.strip()

print(json.dumps(found))
