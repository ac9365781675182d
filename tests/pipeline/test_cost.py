"""Prices: the arithmetic of a known model, caching, and unknown prices that stay unknown."""

from decimal import Decimal

from screening.pipeline.config import preset
from screening.pipeline.cost import cost_usd, has_list_price, usage_per_call
from screening.pipeline.draws import Usage
from screening.pipeline.files import estimated_tokens, load_prompts

WORKER, RISK, _ = preset("recommended").nodes


def test_a_call_with_a_cached_prompt_costs_what_the_list_price_says():
    # Sonnet 4.6: $3 input, $15 output, $0.30 cache read, $3.75 cache write per million tokens.
    usage = Usage(input_tokens=1_300, output_tokens=3, cache_read_tokens=1_000, cache_write_tokens=100)
    expected = (200 * Decimal("3") + 3 * Decimal("15") + 1_000 * Decimal("0.30") + 100 * Decimal("3.75")) / 1_000_000
    assert cost_usd("claude-sonnet-4-6", usage) == expected


def test_an_unknown_price_is_unknown():
    assert cost_usd("llama3.1:8b", Usage(input_tokens=10)) is None


def test_the_estimate_before_the_first_call_grows_with_the_text():
    prompts = load_prompts()
    short, long = (usage_per_call(prompts, (WORKER,), characters) for characters in (0, 3_000))
    assert long.input_tokens - short.input_tokens == 1_000
    assert short.input_tokens > estimated_tokens(prompts.system("worker"))
    each = [usage_per_call(prompts, [node], 0).input_tokens for node in (WORKER, RISK)]
    assert min(each) <= usage_per_call(prompts, [WORKER, RISK], 0).input_tokens <= max(each)


def test_only_a_model_of_the_service_itself_has_a_list_price():
    assert has_list_price("claude-haiku-4-5")
    assert not has_list_price("claude-hiaku-4-5")
    assert not has_list_price("gpt-4o"), "another service's model of that price is not what is asked"


def test_instructions_of_a_node_of_its_own_are_counted():
    long = WORKER.model_copy(update={"instructions": "Say one word. " * 2_000})
    prompts = load_prompts()
    assert usage_per_call(prompts, [long], 0).input_tokens > 5_000 + usage_per_call(prompts, [WORKER], 0).input_tokens
