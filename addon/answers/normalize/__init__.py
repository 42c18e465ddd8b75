"""What OpenAI-shaped providers say in ways of their own is said in the contract's way: one file a rule. Pure.

``choices`` brings the rules together. Every rule returns the very value that it was given where it has nothing to
change, and a new one otherwise; keys that it doesn't know stay, in their order.
"""
