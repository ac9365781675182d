"""What calls cost, by an offline price table: an unknown price is None, never 0."""

import math
from collections.abc import Sequence
from decimal import Decimal

from screening.pipeline.config import NodeConfig
from screening.pipeline.draws import Usage
from screening.pipeline.files import PromptSet, estimated_tokens

_PROVIDER = "anthropic"
_FRAME_TOKENS = 120  # nonce, tags and JSON around a text
_ANSWER_TOKENS = 10  # one word, and never more than is asked for
_TEXT_CHARACTERS_PER_TOKEN = 3  # chat, names and emoji take more tokens than prose


def cost_usd(model: str, usage: Usage) -> Decimal | None:
    """US dollars at list price, cache reads and writes at their own rates; None where the table does not know the
    model.

    >>> cost_usd("claude-sonnet-4-6", Usage(input_tokens=1_000_000, output_tokens=1_000_000)) == 18
    True
    """
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        return Decimal(genai_prices.calc_price(tokens, model, provider_id=_PROVIDER).total_price)
    except LookupError:
        return None


def sum_costs(costs: Sequence[float | None]) -> float | None:
    """None where one of them is not known.

    >>> sum_costs([1.0, 2.5]), sum_costs([1.0, None]), sum_costs([])
    (3.5, None, 0.0)
    """
    return None if None in costs else sum((cost or 0.0 for cost in costs), 0.0)


def has_list_price(model: str) -> bool:
    """Whether the paid service is known to offer this model.

    >>> has_list_price("claude-haiku-4-5"), has_list_price("claude-hiaku-4-5")
    (True, False)
    """
    return cost_usd(model, Usage()) is not None


def usage_per_call(prompts: PromptSet, nodes: Sequence[NodeConfig], characters: float) -> Usage:
    """About what one call costs for a text of so many characters, over these nodes on average; without caching, so it
    errs on the dear side. Once there are calls, their mean is the better guide.
    """
    fixed = sum(estimated_tokens(prompts.system(node.name, agent=node.agent)) for node in nodes) / len(nodes)
    frame_and_text = _FRAME_TOKENS + math.ceil(characters / _TEXT_CHARACTERS_PER_TOKEN)
    return Usage(input_tokens=math.ceil(fixed) + frame_and_text, output_tokens=_ANSWER_TOKENS)
