"""Errors that a user can mend; nothing else is imported here, so that commands start fast."""


class RunError(ValueError):
    """An unusable file or folder of results; the message names it and the next step."""


class UnavailableError(FileNotFoundError):
    """A model or data set that is neither on this machine nor reachable."""


def first_line(error: Exception) -> str:
    """Returns the first line of another library's error."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
