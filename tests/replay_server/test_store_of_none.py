"""The replay servers of a run that has none: nobody is asked, and nothing is there."""

from support import small

from ps_dqn.config import Config


def test_nobody_is_asked() -> None:
    store = small.no_replay_servers(Config())
    assert store.num_servers == 0
    assert store.create("run", 1, updates=0) == 0
    assert store.ledgers() == store.describe(0) == []
    assert store.errors() == ""
