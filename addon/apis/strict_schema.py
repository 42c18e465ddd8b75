"""Which JSON schemas a provider can enforce. Pure."""

from collections.abc import Mapping, Sequence


def is_strict(schema: object) -> bool:
    """Return whether OpenAI can enforce a schema: each object names all its members, and requires them.

    It refuses other schemas with ``strict``. Source: OpenAI, "Structured model outputs", "Supported schemas".
    """
    waiting: list[object] = [schema]
    for node in waiting:
        if isinstance(node, Mapping):
            if isinstance(named := node.get("properties"), Mapping) or node.get("type") == "object":
                required = node.get("required")
                names = set(named) if isinstance(named, Mapping) else set()
                has_all = isinstance(required, Sequence) and names.issubset(map(str, required))
                if node.get("additionalProperties") is not False or (names and not has_all):
                    return False
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return True
