"""`Answerer` as a function of Dask and of Spark. The test of Spark runs only where pyspark and Java are installed."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any
from unittest.mock import patch

import pandas
import pytest

from lamina.reader.distributed import COLUMNS, SPARK_SCHEMA, Answerer
from tests import tiny
from tests.golden import TRAINED
from tests.reader.test_distributed import Row, rows


@pytest.fixture(scope="module")
def asked() -> pandas.DataFrame:
    return pandas.DataFrame(rows(tiny.corpus(4)))


@pytest.fixture(scope="module")
def expected(asked: pandas.DataFrame) -> list[Row]:
    found: list[Row] = Answerer(TRAINED)(asked).to_dict("records")
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_dask_gives_the_same_rows(asked: pandas.DataFrame, expected: list[Row]) -> None:
    dask = pytest.importorskip("dask.dataframe")
    answerer = Answerer(TRAINED)
    meta = answerer(asked.iloc[:0])
    answers = dask.from_pandas(asked, npartitions=3).map_partitions(answerer, meta=meta)
    found: Any = answers.compute(scheduler="threads")
    assert found[list(COLUMNS)].to_dict("records") == expected


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
@pytest.mark.filterwarnings("ignore")  # of pyspark, which does not know this version of pandas yet
def test_spark_gives_the_same_rows(asked: pandas.DataFrame, expected: list[Row]) -> None:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with patch.dict(os.environ, python):
        builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
        try:
            frame = session.createDataFrame(asked.to_dict("records")).repartition(3)
            found = frame.mapInPandas(Answerer(TRAINED), SPARK_SCHEMA).collect()
        finally:
            session.stop()
    assert sorted([row[name] for name in COLUMNS] for row in found) == sorted([r[name] for name in COLUMNS] for r in expected)
