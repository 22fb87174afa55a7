# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where Apache Otava sees a metric change: otava_changes.py FOLDER VARIANT METRIC.

FOLDER holds one run's CSV a file, by name in the order of time. Prints, as JSON, the runs that
are the first after each change.
"""

import csv
import datetime
import json
import pathlib
import sys
import tempfile

from otava.data_selector import DataSelector
from otava.importer import CsvImporter
from otava.test_config import CsvMetric, CsvTestConfig

folder, variant, metric = sys.argv[1:]
with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as one:
    writer = None
    for path in sorted(pathlib.Path(folder).iterdir()):
        with open(path, newline="") as lines:
            rows = csv.DictReader(lines, strict=True)
            # Otava's columns are metrics: so it gets the rows of one.
            for row in rows:
                if (row["variant"], row["metric"]) == (variant, metric):
                    if writer is None:
                        writer = csv.DictWriter(one, rows.fieldnames)
                        writer.writeheader()
                    writer.writerow(row)
    one.flush()
    config = CsvTestConfig(
        metric,
        one.name,
        time_column="begun",
        metrics=[CsvMetric("median", -1, 1e-9, "median")],
        attributes=["run"],
    )
    selector = DataSelector()
    selector.since_time = datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)
    selector.until_time = datetime.datetime(3000, 1, 1, tzinfo=datetime.timezone.utc)
    series = CsvImporter().fetch_data(config, selector)

changes = series.analyze().change_points["median"]
print(json.dumps([series.attributes["run"][change.index] for change in changes]))
