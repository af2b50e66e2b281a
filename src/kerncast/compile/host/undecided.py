"""Why a value of host code is not known."""


class Undecided(Exception):  # noqa: N818  an answer, not a mishap
    """The value is not known: the message says why, as the end of "passes n, …"."""
