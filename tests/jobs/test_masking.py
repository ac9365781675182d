"""With masking on, agents are shown the masked copy of a text, and the configuration says so."""

import json

import pytest

from jobs.agents import Agents
from jobs.intake import configuration
from screening.engine.pipeline import preset
from screening.settings import Settings
from storage.batches.case_texts import sent_to_agents


class Row:
    """A row as the storage has it."""

    text, model_text = "Write to ann@example.org. I want to die.", None
    reply, model_reply = "Call +44 7700 900123.", None
    turns = None


def test_what_is_sent_is_masked_where_the_configuration_says_so() -> None:
    plain, shown = sent_to_agents(Row, {}), sent_to_agents(Row, {"masking": 1})
    assert plain.text == Row.text
    assert (shown.text, shown.reply) == ("Write to [mail]. I want to die.", "Call [phone].")
    with pytest.raises(ValueError, match="another version"):
        sent_to_agents(Row, {"masking": 99})


def test_the_configuration_tells_masked_from_unmasked() -> None:
    off, on = (Settings(mask_before_sending=one, sampler="simulated") for one in (False, True))
    versions = [configuration(one, Agents(one), preset("recommended")) for one in (off, on)]
    assert "masking" not in versions[0].texts and versions[1].texts["masking"] == 1
    assert versions[0].version != versions[1].version
    assert json.dumps(dict(versions[1].texts))
