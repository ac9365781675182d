"""What is said of a batch's price before its first call: never less than its calls can cost, or nothing."""

from pages.batches.estimates import batch_estimate
from pages.batches.file_check import Check
from screening.engine.cost import cost_usd, usage_per_call
from screening.engine.pipeline import preset
from screening.engine.prompting import load_prompts
from screening.settings import Settings

PIPELINE = preset("recommended")
NODES = PIPELINE.nodes
FOUND = Check(accepted=100, rejected={}, referenced=0, without_call=10, characters=100 * 300)


def _settings(**changes: object) -> Settings:
    return Settings(_env_file=None, **{"sampler": "anthropic", "ANTHROPIC_API_KEY": "k"} | changes)


def test_at_most_is_every_budget_spent_on_every_text_that_is_asked_about() -> None:
    settings = _settings(requests_per_minute=600)
    worst = batch_estimate(FOUND, PIPELINE, settings, None).worst
    one = cost_usd(settings.model, usage_per_call(load_prompts(), NODES, 300))
    assert one is not None and worst.usd is not None
    assert worst.calls == 90 * sum(node.rule.rule().budget for node in PIPELINE.nodes)
    assert abs(worst.usd - float(one) * worst.calls) < 1e-6 and worst.seconds == worst.calls / 10


def test_what_was_seen_counts_for_more_than_what_is_assumed() -> None:
    found = batch_estimate(FOUND, PIPELINE, _settings(), 20.0)
    assert found.expected.calls == 90 * 20 < found.worst.calls and found.basis.startswith("20.0 calls a text so far")


def test_an_unknown_price_is_not_called_free_and_simulated_agents_are() -> None:
    own = _settings(anthropic_base_url="http://127.0.0.1:9", model="llama3.1:8b", temperature=None)
    assert batch_estimate(FOUND, PIPELINE, own, None).worst.usd is None
    assert batch_estimate(FOUND, PIPELINE, _settings(sampler="simulated"), None).worst.usd == 0
