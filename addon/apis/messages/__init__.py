"""The Messages API, as Anthropic's clients speak it. Pure. Source: Anthropic, API reference, "Create a Message"."""
