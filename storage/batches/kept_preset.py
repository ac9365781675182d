"""Which preset a site starts new batches with: what was in use stays in use until somebody chooses another."""

from sqlalchemy import select

from screening.engine.pipeline import Preset
from screening.settings import Settings
from storage.database import Database
from storage.schema import configurations

BEFORE_CERTIFICATES: Preset = "recommended"


def with_kept_preset(settings: Settings, db: Database) -> Settings:
    """The settings; where none was set and the database's first configuration is the former default, with that.

    Batches always end with the rule they were handed in with; this keeps an upgrade from changing the next one's.
    """
    if "preset" in settings.model_fields_set:
        return settings
    first = select(configurations.c.body).order_by(configurations.c.created_at).limit(1)
    with db.read() as conn:
        body = conn.execute(first).scalar()
    formerly = body is not None and body["pipeline"].get("name") == BEFORE_CERTIFICATES
    return settings.model_copy(update={"preset": BEFORE_CERTIFICATES}) if formerly else settings
