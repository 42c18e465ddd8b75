"""Tools of the tests: a scripted provider, real gateway processes, raw clients and recorded traffic."""
