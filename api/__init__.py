"""The door for programs: `/api/v1` over HTTP, with tokens instead of a sign-in."""
