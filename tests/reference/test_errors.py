import pickle

import pytest

from conformance.reference import (
    CheckpointError,
    ConfigError,
    DataError,
    ModelError,
    MpiError,
    StartError,
    TopologyError,
    TransportError,
)


@pytest.mark.parametrize(
    "kind", [CheckpointError, ConfigError, DataError, ModelError, MpiError, TopologyError, TransportError]
)
def test_an_error_says_all_four_things_and_survives_pickling(kind: type[StartError]) -> None:
    error = kind("RANK", "'x'", "an integer", "correct it")
    assert str(error) == "RANK: found 'x'; expected an integer. Remedy: correct it."
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert (copy.subject, copy.found, copy.expected, copy.remedy) == ("RANK", "'x'", "an integer", "correct it")
    assert isinstance(error, StartError)
