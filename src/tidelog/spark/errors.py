"""What a user gets to see."""


class OptionError(ValueError):
    """A mistake in an option, in one line that names the option."""
