"""The folder `artifacts` that Spark leaves behind."""

from __future__ import annotations

from pathlib import Path

from minibroker.spark.session import Leftovers


def test_what_spark_left_is_taken_away(tmp_path: Path) -> None:
    leftovers = Leftovers(tmp_path)
    (tmp_path / "artifacts" / "spark-1").mkdir(parents=True)
    leftovers.remove()
    assert list(tmp_path.iterdir()) == []
    leftovers.remove()


def test_what_is_somebody_elses_stays(tmp_path: Path) -> None:
    others = tmp_path / "artifacts" / "spark-other"
    others.mkdir(parents=True)
    leftovers = Leftovers(tmp_path)
    (tmp_path / "artifacts" / "spark-1").mkdir()
    leftovers.remove()
    assert list((tmp_path / "artifacts").iterdir()) == [others]


def test_files_stay(tmp_path: Path) -> None:
    leftovers = Leftovers(tmp_path)
    (tmp_path / "artifacts" / "spark-1").mkdir(parents=True)
    (tmp_path / "artifacts" / "spark-1" / "shared").touch()
    (tmp_path / "artifacts" / "mine").touch()
    leftovers.remove()
    assert (tmp_path / "artifacts" / "spark-1" / "shared").exists()
    assert (tmp_path / "artifacts" / "mine").exists()
