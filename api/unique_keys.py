"""Bodies in which no key stands twice: a reader that takes the last would screen another text than one that takes the
first, and whoever reads the program's log sees only one of them.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from screening.text.unique_keys import RepeatedKey, unique_keys


class UniqueKeysRoute(APIRoute):
    """A route that refuses a JSON body with a repeated key (422)."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """The library's handler, given a request of ours."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return answer


class _Request(Request):
    async def json(self) -> Any:
        try:
            return json.loads(await self.body(), object_pairs_hook=unique_keys)
        except RepeatedKey:
            raise HTTPException(422, "a key stands twice in the body, and nothing was stored") from None
