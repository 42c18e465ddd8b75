"""What end-to-end tests stand on: a scripted provider, a real gateway process, and raw clients."""
