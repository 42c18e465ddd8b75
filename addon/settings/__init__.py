"""The operators' files, their checks, and the frozen ``Settings`` made from them."""
