"""The shared parts of pages: ``{% module NAME(...) %}`` in a template. Each has a template in ``templates/parts/``."""
