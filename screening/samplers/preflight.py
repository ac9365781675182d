"""The result of asking the model once, with a harmless text, before anything else is asked."""

from screening.engine.draws import Answer, Draw, Preflight, SamplerError, ScreenedText

HARMLESS = ScreenedText(text="The museum opens at ten on weekdays and has a small cafe.")


def preflight_of_answer(draw: Draw, *, model: str, temperature: float | None, seconds: float) -> Preflight:
    """The model answered: well only if with a label."""
    ok = draw.answer is Answer.LABEL
    message = f"{model} answered with the label {draw.label} in {seconds:.1f} s."
    if draw.answer is Answer.MISSHAPEN and draw.raw:
        message = f"{model} answered, but the answer does not count: {draw.raw}."
    elif not ok:
        message = f"{model} answered, but not with a label ({draw.answer}): it may be thinking first, or too small."
    return Preflight(
        ok=ok,
        message=message,
        model=model,
        temperature_accepted=None if temperature is None else True,
        kind=None,
        seconds=seconds,
    )


def preflight_of_error(
    error: SamplerError, *, model: str, works_without_temperature: bool, seconds: float
) -> Preflight:
    """The call failed; the one cause that a site can remove by a setting is named."""
    message = (
        f"{model} accepts no temperature: leave the temperature setting empty."
        if works_without_temperature
        else str(error)
    )
    return Preflight(
        ok=False,
        message=message,
        model=model,
        temperature_accepted=False if works_without_temperature else None,
        kind=error.kind,
        seconds=seconds,
    )
