"""Rules that bring answers of OpenAI-shaped providers into the contract's shape: one file a rule. Pure.

``choices`` applies the rules together. Every rule returns the very value that it was given when it has nothing to
change, and a new value otherwise. Keys that a rule doesn't know stay, in their order.
"""
