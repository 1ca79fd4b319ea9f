import pickle

import pytest

from degroot.exceptions import AgentError, DeGrootError, InvalidInput


@pytest.mark.parametrize("error", [DeGrootError("a"), InvalidInput("a"), AgentError("north", "a")])
def test_an_error_survives_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_an_agents_error_names_the_agent():
    error = AgentError("north", "`y` must be finite; row 3 is nan.")
    assert error.agent == "north"
    assert str(error) == "Agent 'north': `y` must be finite; row 3 is nan."


def test_invalid_input_is_a_value_error():
    with pytest.raises(ValueError, match="must"):
        raise AgentError("north", "`y` must be finite.")
    assert issubclass(InvalidInput, DeGrootError)
