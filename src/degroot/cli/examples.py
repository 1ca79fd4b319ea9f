"""Examples: how a command is typed, at the end of its help."""


def examples(*commands: str) -> str:
    r"""The end of a help text; its lines stay as they are.

    >>> examples("degroot demo")
    '\x08\nExample:\n  degroot demo'
    """
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {command}" for command in commands)])
