"""A config key that is none would be passed over by every broker, and a test would test something else."""

import pytest

from tidelog.testing import Cluster


def test_a_misspelt_key_is_warned_of_where_it_is_written() -> None:
    with pytest.warns(UserWarning, match="unknown config key min.insync.replica is ignored") as said:
        Cluster(config={"min.insync.replica": "2", "num.partitions": "3"})
    assert len(said) == 1 and said[0].filename == __file__
