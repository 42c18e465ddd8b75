"""Other gateways, measured next to this one. Nothing of them is a dependency of the project."""
