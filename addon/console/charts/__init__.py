"""Charts as inline SVG, each with a title and a description for screen readers. Pure."""
